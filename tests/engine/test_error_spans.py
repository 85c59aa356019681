"""Error spans: words are places in the original text, and tokens are parts of them whatever a tokenizer normalises."""

from __future__ import annotations

import random
import unicodedata
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import regex

import twmd_registry
from tests.encode import vocabularies
from twmd_registry.encode.encoder import Encoder, tokenise
from twmd_registry.encode.pieces import pieces_of
from twmd_registry.engine.error_spans import (
    SPANS,
    ErrorSpan,
    Word,
    find_error_spans,
    find_span_settings,
    place_words,
    smooth,
    word_costs,
)
from twmd_registry.errors import SpecError, TwmdWarning
from twmd_registry.models.packaged import UnigramTokenizer

CHARACTERS = ["abc dEfZ", "éàüßñÇ", "e\u0301a\u0308o\u0328", "שלום עִבְרִית", "مرحبا بِكُم", "नमस्ते क्षेत्र", "ภาษาไทยที่"]
CHARACTERS += ["日本語中文字", "한국어", "👩\u200d👩🏽🇩🇪", "ﬁﬂ①²½Ⅷ㎏ﷺ", "  \t\n\u00a0\u2003", "!?.,;:'\"-—()", "0123٣४"]
CHARACTERS += ["\u200b\u200d\u202e\u2066\u2069\ufeff\u00ad", "𝔘𝔫𝔦𝒞İıſΩÅ", "\x00\x07\x1c"]


def random_texts(number: int) -> list[str]:
    draw = random.Random(0)
    return ["".join(draw.choice(draw.choice(CHARACTERS)) for _ in range(draw.randint(0, 30))) for _ in range(number)]


def test_words_of_random_texts_are_disjoint_and_cover_letters_digits_and_signs() -> None:
    for text in random_texts(2_000):
        words = list(place_words(text))
        ends = [0, *(end for _, end in words)]
        assert all(before <= start < end for before, (start, end) in zip(ends, words, strict=False))
        gaps = "".join(
            text[end:start] for end, start in zip(ends, [*(start for start, _ in words), len(text)], strict=True)
        )
        assert not any(c.isalnum() or unicodedata.category(c)[0] in "PS" for c in gaps)
        assert not any(text[start].isspace() or text[end - 1].isspace() for start, end in words)


@pytest.mark.parametrize(
    "text", ["👨\u200d👩\u200d👧", "👩🏽\u200d🚀", "🇩🇪", "❤️\u200d🔥", "1️⃣", "#️⃣", "ที่", "น้ำ", "क्षेत्र", "e\u0301t\u00ade"]
)
def test_user_character_is_in_one_word(text: str) -> None:
    n = len(text)
    assert list(place_words(f"a {text}, {text}")) == [(0, 1), (2, n + 2), (n + 2, n + 3), (n + 4, 2 * n + 4)]


@pytest.mark.parametrize("preset", ["embedded", "multilingual"])
def test_every_token_of_a_random_text_is_in_the_words_of_its_offsets(preset: str) -> None:
    with twmd_registry.scorer("twmd", preset=preset) as scorer:
        encoder = scorer.members[0].backend.model
        # A tokenizer drops control characters: a mark after one is joined with whatever came before.
        texts = [regex.sub(r"(?<=[\x00-\x1f])[\p{M}\p{Cf}]+", "", text) for text in random_texts(2_000)]
        mismatches, tokens = [], 0
        encoded, tokenizer = tokenise(encoder.tokenizer, texts, encoder.limit), encoder.tokenizer
        normalise = tokenizer.backend_tokenizer.normalizer.normalize_str
        marks = "▁" if isinstance(tokenizer, UnigramTokenizer) else "##"
        for text, own in zip(texts, encoded, strict=True):
            offsets = encoder.offsets(text)
            assert len(offsets) == len(own.ids)
            words, covered = list(place_words(text)), np.zeros(len(text), dtype=bool)
            for (start, end), token in zip(offsets[own.special == 0], own.ids[own.special == 0], strict=True):
                covered[start:end] = True
                inside = [word for word in words if word[0] < end and start < word[1]]
                if token == tokenizer.unk_token_id or not inside:
                    continue
                tokens += 1
                (piece,) = tokenizer.convert_ids_to_tokens([int(token)])
                shown = normalise(text[min(start, inside[0][0]) : inside[-1][1]]).replace("▁", " ")
                if piece.replace(marks, " ").strip() not in shown:
                    mismatches.append((text, start, end, piece))
            assert all(covered[i] for i, character in enumerate(text) if character.isalpha())
    assert tokens > 2_000
    assert mismatches == []


@pytest.mark.parametrize("build", [*vocabularies.ALL, "byte fallback"])
def test_offsets_of_every_build_of_tokenizers_cover_the_letters_and_hold_the_tokens_bytes(build: str) -> None:
    tokenizer = vocabularies.ALL.get(build, vocabularies.byte_fallback)()
    read = partial(tokenise, tokenizer, limit=None)
    encoder = SimpleNamespace(tokenizer=tokenizer, limit=None)
    raw = pieces_of(tokenizer).raw
    for text in random_texts(300):
        offsets, (tokens,) = Encoder.offsets(encoder, text), read([text])  # type: ignore[arg-type]
        covered = np.zeros(len(text), dtype=bool)
        for (start, end), token in zip(offsets[tokens.special == 0], tokens.ids[tokens.special == 0], strict=True):
            assert 0 <= start <= end <= len(text)
            covered[start:end] = True
            if build.startswith("byte-level"):
                assert raw[token].strip() in text[start:end].encode()
        assert all(covered[i] for i, character in enumerate(text) if character.isalpha())


def test_word_is_as_bad_as_its_worst_token() -> None:
    offsets = np.array([[0, 0], [0, 2], [2, 5], [5, 6], [7, 9]])
    words = word_costs("later, no end", offsets, np.array([9.0, 0.1, 0.4, 0.2, 0.3]))
    assert words == (Word(0, 5, 0.4), Word(5, 6, 0.2), Word(7, 9, 0.3), Word(10, 13, None))


def test_smoothing_is_a_triangular_mean_over_the_words_that_were_compared() -> None:
    words = [Word(0, 1, 1.0), Word(2, 3, None), Word(4, 5, 4.0), Word(6, 7, 0.0)]
    np.testing.assert_allclose(smooth(words, 0), [1, np.nan, 4, 0])
    np.testing.assert_allclose(smooth(words, 1), [1, np.nan, 8 / 3, 4 / 3])
    assert smooth([], 2).shape == (0,)


def test_span_is_a_run_of_bad_words_with_the_severity_of_the_worst() -> None:
    badness = [0.5, 0.9, 0.1, None, 0.5]
    words = [Word(2 * i, 2 * i + 1, value) for i, value in enumerate(badness)]
    assert find_error_spans(words, (0.4, 0.8, 0)) == (
        ErrorSpan(0, 3, "major", 0.9),
        ErrorSpan(8, 9, "minor", 0.5),
    )
    assert find_error_spans((), (0.4, 0.8, 0)) == ()


def test_badness_is_the_loss_against_the_self_alignment() -> None:
    shown = twmd_registry.score(["It rained all night."], ["It rained all day."], "bertscore_centered").explain(0)
    kept = [i for i, token in enumerate(shown.hypothesis) if not token.startswith("[")]
    expected = 1 - shown.similarities.max(axis=1)[kept]
    np.testing.assert_allclose([word.badness or 0.0 for word in shown.words[0]], expected, atol=1e-5)


def test_identical_texts_have_no_error_and_the_changed_word_is_the_worst() -> None:
    scores = twmd_registry.score(["It rained all night.", "It rained."], ["It rained all day.", "It rained."])
    changed, same = scores.explain_all()
    (worst,) = [word for word in changed.words[0] if word.badness == max(own.badness or 0 for own in changed.words[0])]
    assert changed.texts[0][worst.start : worst.end] == "night"
    assert same.error_spans() == ((), ())
    assert changed.as_dict(spans=True)["hypothesis"]["spans"]
    assert "spans_settings" not in changed.as_dict()


@pytest.mark.parametrize("special", ["none", "all"])
@pytest.mark.filterwarnings("ignore:texts without a token")
def test_every_word_is_an_error_where_the_other_text_is_empty(special: str) -> None:
    text, whole = "an added thing", (ErrorSpan(0, 14, "major", pytest.approx(1.0, abs=0.01)),)  # type: ignore[arg-type]
    scores = twmd_registry.score([text, "", ""], ["", text, ""], "bertscore_centered", special=special)
    added, missing, nothing = [shown.words for shown in scores.explain_all()]
    settings = (0.2, 0.5, 0)
    assert [find_error_spans(words, settings) for words in added] == [whole, ()]
    assert [find_error_spans(words, settings) for words in missing] == [(), whole]
    assert nothing == ((), ())
    assert not scores.explain(0).similarities.any()


@pytest.mark.filterwarnings("ignore:.*longer than the limit")
@pytest.mark.parametrize("keys", [{"truncation": "cut:6"}, {"truncation": "window:6/3"}, {"ngram": 2}])
def test_words_are_compared_as_far_as_the_text_was_read(keys: dict[str, str]) -> None:
    text = "It rained all night in our garden."
    shown = twmd_registry.score([text], [text], "bertscore_centered", centering="none", special="none", **keys)
    compared = [word.badness is not None for word in shown.explain(0).words[0]]
    assert compared == [True] * 4 + [keys.get("truncation") != "cut:6"] * 4


def test_all_alignments_are_those_of_each_segment() -> None:
    predictions, references = [f"it rained {i} times" for i in range(70)], ["it rained twice"] * 70
    scores = twmd_registry.score(predictions, references, "twmd", centering="batch", centering_size=32)
    every = list(scores.explain_all())
    assert [shown.texts[0] for shown in every] == predictions
    for i in (0, 40, 69):
        np.testing.assert_allclose(every[i].similarities, scores.explain(i).similarities, atol=1e-5)


def test_metric_without_fitted_thresholds_is_refused_and_a_damaged_file_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path))
    shown = twmd_registry.score(["a dog"], ["a cat"], "twmd", temperature=0.3).explain(0)
    with pytest.raises(SpecError, match="fit them by 'twmd fit-spans'"):
        shown.error_spans()
    spec = twmd_registry.scorer("twmd").spec
    part = find_span_settings(spec)
    assert part
    folder = tmp_path / SPANS.folder
    folder.mkdir()
    (folder / SPANS.name("0" * 12)).write_text("{}")
    with pytest.warns(TwmdWarning, match="is not as 'twmd fit-spans' wrote it"):
        assert find_span_settings(spec) == part
