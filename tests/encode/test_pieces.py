"""The pieces of real vocabularies: small trained ones, and the embedded model's."""

from __future__ import annotations

import string
from functools import cache
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import twmd_registry
from tests.conftest import Texts
from tests.encode import vocabularies
from tests.encode.vocabularies import ALL, SUBWORD, Reader
from twmd_registry.encode.words import as_tokenized, left_out

BYTES = ["byte-level", "byte-level with a space before"]
MARKED = [*BYTES, "unigram", "sentencepiece bpe"]
reader = cache(lambda name: Reader(ALL[name]()))


def words(name: str, text: str) -> list[str]:
    """Return the words of a text in lower case, without separate marks."""
    return [word.lower() for word in reader(name).words(text) if word]


@pytest.mark.parametrize(
    ("pieces", "count"),
    [
        (["\u0e1d\u0e19", "\u0e15\u0e01", "\u0e27", "\u0e31\u0e19"], 3),  # Thai; the last continues a vowel
        (["\u1794\u17d2\u179a", "\u17b6\u17c6", "\u1794\u17b8"], 2),  # Khmer
        (["\u0bae\u0bb4\u0bc8", "\u0baa\u0bc6\u0baf"], 1),  # Tamil has spaces
    ],
)
def test_pieces_of_scripts_without_spaces_are_words(pieces: list[str], count: int) -> None:
    special = vocabularies.SPECIAL
    scores = dict.fromkeys(special, 0.0) | dict.fromkeys([f"\u2581{pieces[0]}", *pieces[1:]], -1.0)
    backend = Tokenizer(models.Unigram(list(scores.items()), unk_id=special.index("[UNK]")))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    read = Reader(vocabularies.wrapped(backend))
    assert len(kept(read, {}, "".join(pieces))) == len(pieces)
    assert len(kept(read, {"subwords": "drop"}, "".join(pieces))) == count


def stopping(read: Reader, *words: str) -> dict[str, Any]:
    """Return the policy that removes the given words."""
    return {"stop_words": as_tokenized(frozenset(words), read.tokenizer, read.pieces)}


def kept(read: Reader, policy: dict[str, Any], text: str) -> list[str]:
    """Return the pieces that a policy keeps, without special tokens."""
    ids, is_text, lengths = read.read([text])
    gone = left_out(read.pieces, ids, is_text, lengths, **policy)
    assert not (gone & ~is_text).any()
    return [read.pieces.texts[i] for i in ids[is_text & ~gone]]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("walkers waded and walked on", ["walkers", "waded", "and", "walked", "on"]),
        ("waiting, the heron walked", ["waiting", ",", "the", "heron", "walked"]),
        ("the weir!", ["the", "weir", "!"]),
        ("  walked away", ["walked", "away"]),
    ],
)
def test_pieces_join_into_the_written_words(name: str, text: str, wanted: list[str]) -> None:
    assert words(name, text) == wanted
    assert wanted[0].startswith(kept(reader(name), {"subwords": "drop"}, text)[0])


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        *((name, "我们喜欢猫", 5) for name in SUBWORD if name != "end-of-word bpe"),  # though nothing marks them
        *((name, "the café naïve herons", 4) for name in MARKED),
        *((name, "heron \U0001f600 weir", 3) for name in BYTES),  # of four bytes
    ],
)
def test_ideographs_and_emoji_are_words_and_accents_do_not_split_them(name: str, text: str, count: int) -> None:
    assert len(words(name, text)) == count
    assert len(kept(reader(name), {"subwords": "drop"}, text)) == count


@pytest.mark.parametrize("name", [*ALL, "bare"])
def test_words_do_not_continue_across_texts(name: str) -> None:
    bare = name == "bare"  # no special tokens are between its texts
    read = Reader(vocabularies.bare(vocabularies.byte_level_backend(prefix=False))) if bare else reader(name)
    texts = ["walked", "", "the heron waded", "naïve (see this)", "waiting at the weir,", "seeing"]
    together = read.continuing(texts)
    np.testing.assert_array_equal(together, np.concatenate([read.continuing([text]) for text in texts]))
    lengths = np.array([len(read.read([text])[0]) for text in texts])
    assert not together[(np.cumsum(lengths) - lengths)[lengths > 0]].any()


@pytest.fixture(scope="module")
def embedded() -> Reader:
    with twmd_registry.load("twmd") as one:
        return Reader(one.backend.model.tokenizer)


def test_in_the_embedded_model_exactly_the_marked_pieces_continue(texts: Texts, embedded: Reader) -> None:
    read = embedded
    unusual = [
        "unbelievably overcaffeinated herons (semi-aquatic)",
        "naïve café-goers… #tagged ##ing",
        "我们喜欢猫",
        "x",
    ]
    sentences = [*texts.predictions, *texts.references, *unusual, "\U0001f600!?"]
    tokens = read.tokens(sentences)
    assert sum(token.startswith("##") for token in tokens) > 20
    assert read.continuing(sentences).tolist() == [token.startswith("##") for token in tokens]
    assert read.pieces.opens.tolist() == [
        not str(t).startswith("##") for t in read.tokenizer.convert_ids_to_tokens(range(len(read.pieces.opens)))
    ]


@pytest.mark.parametrize("name", ALL)
def test_punctuation_tokens_are_all_punctuation_or_one_ascii_character(name: str) -> None:
    read = reader(name)
    marks, ascii_marks = (
        {piece for piece, flat in zip(read.pieces.texts, flags, strict=True) if flat}
        for flags in (read.pieces.punctuation, read.pieces.ascii_punctuation)
    )
    assert {",", "!"} <= marks
    assert not any(character.isalnum() or character == "\ufffd" for piece in marks for character in piece)
    assert {",", "!"} <= ascii_marks <= set(string.punctuation)
    for punctuation in ("drop", "drop-ascii"):
        left = kept(read, {"punctuation": punctuation}, "the heron, waiting at the weir!")
        assert "".join(left).lower() == "theheronwaitingattheweir"


def test_dropping_ascii_punctuation_keeps_typographic_marks(embedded: Reader) -> None:
    text = "\u201cthe heron\u201d \u2013 a bird\u2026"
    assert kept(embedded, {"punctuation": "drop"}, text) == ["the", "heron", "a", "bird"]
    left = "\u201c the heron \u201d \u2013 a bird \u2026".split()
    assert kept(embedded, {"punctuation": "drop-ascii"}, text) == left


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("stop_words", "text", "left"),
    [
        (["walked", "the", "walkers"], "walkers waded where the heron walked", "wadedwhereheron"),
        (["walk", "wait", "he", "bak", "wa", "ing", "see"], "walked waiting heron baking seeing", None),
        (["waiting", "walked"], "waiting, walked the heron, waiting", ",theheron,"),
        (["walked,waded"], "heron walked,waded waded, walked", "heronwaded,walked"),
        (["café"], "the café waiting", "thewaiting"),
    ],
    ids=["all pieces", "beginning of a longer word", "first, last and beside punctuation", "several words", "accent"],
)
def test_stop_word_is_removed_with_all_its_pieces_and_only_as_a_whole_word(
    name: str, stop_words: list[str], text: str, left: str | None
) -> None:
    read = reader(name)
    assert "".join(kept(read, stopping(read, *stop_words), text)).lower() == (left or text.replace(" ", ""))


@pytest.mark.parametrize("name", ALL)
def test_stop_word_does_not_match_across_texts(name: str) -> None:
    read = reader(name)
    ids, is_text, lengths = read.read(["heron waiting,", "walked waiting, walked"])
    gone = left_out(read.pieces, ids, is_text, lengths, **stopping(read, "waiting,walked"))
    assert not gone[: lengths[0]].any()


@pytest.mark.parametrize("name", ALL)
def test_special_tokens_are_never_stop_words(name: str) -> None:
    read = reader(name)
    ids, is_text, lengths = read.read(["the heron", "walked"])
    listed = frozenset({("[cls]",), ("[sep]",), ("",)})
    gone = left_out(read.pieces, ids, is_text, lengths, subwords="drop", punctuation="drop", stop_words=listed)
    assert not is_text.all()
    assert not gone[~is_text].any()


@pytest.mark.parametrize("name", MARKED)
def test_separate_mark_is_removed_with_its_stop_word(name: str) -> None:
    read = reader(name)
    text = "the heron kkkk waded"
    policy = stopping(read, read.words(text)[-2].lower())
    assert "".join(kept(read, policy, text)) == "theheronwaded"
    assert "" not in kept(read, policy, text)


def test_byte_level_letters_do_not_split_a_word() -> None:
    read = Reader(vocabularies.byte_fallback())
    assert "<0xC3>" in read.tokens(["naïve"])
    assert len([word for word in read.words("naïve arc") if word]) == 2


@pytest.mark.parametrize("name", ["unigram", "sentencepiece bpe"])
def test_rest_of_a_word_with_an_unknown_letter_is_not_a_stop_word(name: str) -> None:
    read = reader(name)
    assert "[UNK]" in read.tokens(["Ŧhe heron"])
    assert "".join(kept(read, stopping(read, "he", "h"), "Ŧhe heron")).endswith("heheron")


def test_unknown_word_does_not_swallow_the_next_if_ends_are_marked() -> None:
    read = reader("end-of-word bpe")
    assert "[UNK]" in read.tokens(["heron \U0001f600 weir"])
    assert "weir" in kept(read, {"subwords": "drop"}, "heron \U0001f600 weir")
