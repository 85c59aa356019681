"""Similarities of words per layer: against double loops over all pairs, and the properties on curves whose answer is
known."""

from __future__ import annotations

import csv
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from twmd_registry.metaeval.word_pairs import CorpusWords, Similarity, pair_words

from tests import tiny
from twmd_registry.cli import main
from twmd_registry.encode.encoder import Encoder
from twmd_registry.encode.mean_vectors import find_background
from twmd_registry.errors import InputError, TwmdWarning
from twmd_registry.metaeval import layer_words
from twmd_registry.metaeval.diagnosis import LayerRow, MeanCosine, Property, diagnose, judge
from twmd_registry.models.files import find_model
from twmd_registry.registry.names import EMBEDDED_MODEL, Centering, Special
from twmd_registry.registry.options import RunOptions

SOME = [
    "the cat sat on the mat",
    "a dog ran over the hill",
    "rain",
    "we saw the cat again",
    "it ran in the rain",
    "the cat sat on the mat",
]
R = np.random.default_rng(5)
CORPUS = [
    *SOME,
    "zebra and okapi ran",
    "the zebra sat",
    *(" ".join(R.choice(tiny.WORDS, size=R.integers(2, 6))) for _ in range(30)),
]
"""More than one batch; a sentence of one word, one that comes twice, words that the tiny vocabulary does not hold."""
ALL_PAIRS = 1_000_000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save_encoder("bert", tmp_path_factory.mktemp("bert")))


class Oracle:
    """Every text encoded by itself; means, cosines and averages by loops."""

    def __init__(self, name: str, texts: list[str]) -> None:
        files = find_model(name)
        encoder = Encoder(files, None, "float32", torch.device("cpu"))
        self.unknown, self.depth = encoder.tokenizer.unk_token_id, encoder.depth
        self.ids: list[list[int]] = []
        self.vectors: list[list[np.ndarray]] = [[] for _ in range(self.depth + 1)]  # by layer, by text
        with torch.inference_mode():
            for text in texts:
                tokens = encoder.tokenise([text])
                own = tokens.special[0] == 0
                self.ids.append(tokens.ids[0][own].tolist())
                for k, vectors in encoder.encode(tokens, range(self.depth + 1)).layers.items():
                    self.vectors[k].append(vectors.double().numpy()[own])
        self.background = None
        if name == EMBEDDED_MODEL:
            self.background = find_background(None, files.fingerprint, None).means[Special.NONE].double().numpy()

    def centered(self, centering: Centering, k: int) -> list[list[np.ndarray | None]]:
        """Unit vectors by text and word; None where nothing is left."""
        found = []
        for t, text in enumerate(self.vectors[k]):
            means: dict[Centering, np.ndarray | float] = {
                Centering.NONE: 0.0,
                Centering.SENTENCE: text.mean(0),
                Centering.BATCH: np.concatenate(self.vectors[k][t // 32 * 32 : t // 32 * 32 + 32]).mean(0),
                Centering.CORPUS: np.concatenate(self.vectors[k]).mean(0),
            }
            if self.background is not None:
                means[Centering.BACKGROUND] = self.background[k]
            own: list[np.ndarray | None] = []
            for vector in text:
                rest = vector - (vector.mean() if centering is Centering.DIMENSION else means[centering])
                length = np.linalg.norm(rest)
                own.append(rest / length if length > 1e-6 * np.linalg.norm(vector) else None)
            found.append(own)
        return found

    def mean(self, similarity: Similarity, centering: Centering, k: int) -> float:
        """The mean over strata of the mean over the stratum's pairs; undirected words weigh out of both."""
        vectors = self.centered(centering, k)
        places = [(t, w) for t, ids in enumerate(self.ids) for w in range(len(ids))]
        strata: dict[int, list[float | None]] = {}
        for (t, v), (u, w) in itertools.combinations(places, 2):
            first, second = self.ids[t][v], self.ids[u][w]
            if similarity is Similarity.RANDOM:
                stratum = 0
            elif similarity is Similarity.SELF and first == second != self.unknown and self.ids[t] != self.ids[u]:
                stratum = first
            elif similarity is Similarity.INTRA and t == u and first != second:
                stratum = t
            else:
                continue
            x, y = vectors[t][v], vectors[u][w]
            strata.setdefault(stratum, []).append(None if x is None or y is None else float(x @ y))
        weighted = [(value, 1 / len(values)) for values in strata.values() for value in values if value is not None]
        return sum(value * weight for value, weight in weighted) / sum(weight for _, weight in weighted)


@pytest.mark.parametrize("which", ["tiny", "embedded"])
def test_every_number_is_the_mean_over_all_pairs(which: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, texts = (model, CORPUS) if which == "tiny" else (EMBEDDED_MODEL, SOME)
    monkeypatch.setattr(layer_words, "CHUNK_TOKENS", 1)  # a piece per batch
    found, oracle = diagnose(name, texts, RunOptions(), pairs=ALL_PAIRS), Oracle(name, texts)
    centerings = [one for one in Centering if one is not Centering.BACKGROUND or which == "embedded"]
    assert [(row.centering, row.layer) for row in found.rows] == [
        (one, k) for one in centerings for k in range(oracle.depth + 1)
    ]
    checked = found.rows if which == "tiny" else [row for row in found.rows if row.layer in {0, oracle.depth}]
    for row in checked:
        for similarity, estimate in row.similarities.items():
            assert estimate.mean == pytest.approx(oracle.mean(similarity, row.centering, row.layer), abs=2e-6)
            assert estimate.error == 0
    assert (found.texts, found.words) == (len(texts), sum(map(len, oracle.ids)))


def test_a_one_word_sentence_has_no_direction_without_its_mean_and_its_pairs_are_counted(model: str) -> None:
    rows = {row.centering: row for row in diagnose(model, SOME, RunOptions(), pairs=ALL_PAIRS).rows if row.layer == 1}
    words = sum(len(text.split()) for text in SOME)
    assert rows[Centering.NONE].similarities[Similarity.RANDOM][2:] == (words * (words - 1) // 2, 0)
    # The word "rain" alone: a partner for every other word, and once for the "rain" of another sentence.
    assert rows[Centering.SENTENCE].similarities[Similarity.RANDOM][2:] == ((words - 1) * (words - 2) // 2, words - 1)
    assert rows[Centering.SENTENCE].similarities[Similarity.SELF].left_out == 1


def test_pieces_and_batches_of_the_encoder_do_not_matter(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = diagnose(model, CORPUS * 3, RunOptions(), pairs=50)
    monkeypatch.setattr(layer_words, "CHUNK_TOKENS", 1)
    cut = diagnose(model, CORPUS * 3, RunOptions(batch_tokens=8), pairs=50)
    for one, other in zip(whole.rows, cut.rows, strict=True):
        for similarity in Similarity:
            assert one.similarities[similarity] == pytest.approx(other.similarities[similarity], abs=1e-5, nan_ok=True)


def test_a_sample_agrees_with_all_pairs_within_its_error_and_the_error_is_that_of_repeated_samples(model: str) -> None:
    exact = diagnose(model, CORPUS, RunOptions(), pairs=ALL_PAIRS).rows[2].similarities
    samples = [diagnose(model, CORPUS, RunOptions(), pairs=60, seed=seed).rows[2].similarities for seed in range(60)]
    for similarity in Similarity:
        means = np.array([sample[similarity].mean for sample in samples])
        errors = np.array([sample[similarity].error for sample in samples])
        assert abs(means.mean() - exact[similarity].mean) < 4 * errors.mean() / math.sqrt(len(samples))
        assert means.std(ddof=1) == pytest.approx(errors.mean(), rel=0.3)
        assert len({*means}) == len(means)
    assert samples[0] == diagnose(model, CORPUS, RunOptions(), pairs=60, seed=0).rows[2].similarities


@pytest.mark.parametrize("similarity", list(Similarity))
def test_pairs_are_drawn_as_often_as_they_weigh(similarity: Similarity) -> None:
    text = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 3])
    words = CorpusWords(np.array([4, 5, 4, 4, 6, 5, 9, 5, 9, 7]), text, text)
    everything = pair_words(similarity, words, 9, ALL_PAIRS, np.random.default_rng(0))
    wanted = {frozenset(pair): weight for *pair, weight in zip(*everything[:3], strict=True)}
    allowed = {
        Similarity.RANDOM: np.ones((10, 10), dtype=bool),
        Similarity.SELF: (words.ids[:, None] == words.ids) & (words.ids != 9) & (text[:, None] != text),
        Similarity.INTRA: (words.ids[:, None] != words.ids) & (text[:, None] == text),
    }[similarity]
    assert set(wanted) == {frozenset((i, j)) for i, j in itertools.combinations(range(10), 2) if allowed[i, j]}
    assert everything.complete
    assert sum(wanted.values()) == pytest.approx(1)
    number = len(wanted) - 1
    counts = dict.fromkeys(wanted, 0)
    rng = np.random.default_rng(1)
    for _ in range(4000):
        drawn = pair_words(similarity, words, 9, number, rng)
        assert not drawn.complete
        for i, j in zip(drawn.first, drawn.second, strict=True):
            counts[frozenset((i, j))] += 1
    for pair, weight in wanted.items():
        expected = weight * 4000 * number
        assert abs(counts[pair] - expected) < 5 * math.sqrt(expected)


def rows(random: list[float], own: list[float], intra: list[float]) -> list[LayerRow]:
    columns = zip(random, own, intra, strict=True)
    return [
        LayerRow(
            Centering.NONE,
            k,
            {name: MeanCosine(value, 0.0, 9, 0) for name, value in zip(Similarity, values, strict=True)},
        )
        for k, values in enumerate(columns)
    ]


FLAT, FALLING, RISING = [0.01, -0.02, 0.0, 0.03], [0.9, 0.7, 0.75, 0.5], [0.1, 0.2, 0.15, 0.4]


@pytest.mark.parametrize(
    ("curves", "expected"),
    [
        ((FLAT, FALLING, RISING), [True, True, True]),
        (([0.0, 0.0, -0.06, 0.0], RISING, FALLING), [False, False, False]),
        (
            ([0.05, 0.0, 0.0, 0.0], [0.5, 0.49, 0.48, 0.46], [0.1, 0.11, 0.12, 0.14]),
            [True, False, False],
        ),  # changes too small
        (
            (FLAT, [0.9, 0.2, 0.3, 0.8], [0.1, 0.9, 0.8, 0.2]),
            [True, False, False],
        ),  # no trend: correlations of -0.2 and 0.2
        ((FLAT, [0.5] * 4, [0.0] * 4), [True, False, False]),
        (([0.0, math.nan, 0, 0], [0.9, math.nan, 0.5, 0.4], RISING), [None, None, True]),
        ((FLAT[:2], FALLING[:2], RISING[:2]), [True, None, None]),
    ],
)
def test_the_properties_hold_by_their_rules(
    curves: tuple[list[float], list[float], list[float]], expected: list[bool | None]
) -> None:
    verdicts = judge(rows(*curves))
    assert [one.property for one in verdicts] == list(Property)
    assert [one.holds for one in verdicts] == expected
    assert all("undefined" in one.evidence for one in verdicts if one.holds is None)


def test_no_word_in_two_sentences_is_undefined_and_said(model: str) -> None:
    with pytest.warns(TwmdWarning, match="undefined, for no two words of the texts can be compared: self"):
        found = diagnose(model, ["the cat sat", "a dog ran", "the cat sat"], RunOptions())
    assert all(
        math.isnan(row.similarities[Similarity.SELF].mean) and row.similarities[Similarity.SELF].pairs == 0
        for row in found.rows
    )
    assert {one.holds for one in found.verdicts if one.property is Property.DECREASING} == {None}
    with pytest.warns(TwmdWarning, match="compared: self, intra"):
        found = diagnose(model, ["rain", "hill"], RunOptions())
    assert {one.holds for one in found.verdicts if one.property is not Property.ZERO} == {None}


def test_texts_without_a_word_are_counted_and_nothing_else_is_an_error(model: str) -> None:
    with pytest.warns(TwmdWarning, match="without a word, left out: 2"):
        found = diagnose(model, [*SOME, " ", ""], RunOptions(), pairs=10)
    assert (found.texts, found.empty, found.truncated) == (len(SOME), 2, 0)
    with pytest.warns(TwmdWarning, match="cut at the model's limit: 1"):
        assert diagnose(model, [*SOME, "the cat " * 40], RunOptions(), pairs=10).truncated == 1
    with pytest.raises(InputError, match="none of the 2 texts has a word"):
        diagnose(model, ["", " "], RunOptions())
    with pytest.raises(InputError, match="one text alone has a word: give 2 texts or more"):
        diagnose(model, ["the cat sat", " "], RunOptions())
    for pairs, seed in ((0, 0), (5, -1)):
        with pytest.raises(InputError, match=f"pairs={pairs}, seed={seed}"):
            diagnose(model, SOME, RunOptions(), pairs=pairs, seed=seed)


def ask(model: str, data: Path, output: Path | None) -> int:
    return main(
        [
            "diagnose",
            model,
            "--data",
            str(data),
            "--device",
            "cpu",
            "--seed",
            "0",
            *(["-o", str(output)] if output else []),
        ]
    )


def test_the_command_prints_the_table_and_verdicts_and_writes_what_it_draws(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "texts.txt"
    data.write_text("\n".join(CORPUS) + "\n", encoding="utf-8")
    assert ask(model, data, tmp_path / "out") == 0
    printed = capsys.readouterr().out
    found = diagnose(model, CORPUS, RunOptions())
    assert found.model in printed
    assert sum(line.startswith(("pass ", "fail ", "undefined ")) for line in printed.splitlines()) == len(
        found.verdicts
    )
    with (tmp_path / "out" / "diagnosis.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert len(written) == len(found.rows)
    for line, row in zip(written, found.rows, strict=True):
        assert (line["centering"], int(line["layer"])) == (row.centering, row.layer)
        for name, estimate in row.similarities.items():
            numbers = [float(line[f"{name}{end}"]) for end in ("", "_error", "_pairs", "_left_out")]
            assert numbers == pytest.approx(list(estimate))
    assert (tmp_path / "out" / "diagnosis.png").read_bytes().startswith(b"\x89PNG")
    assert "dimension" in (tmp_path / "out" / "diagnosis.svg").read_text(encoding="utf-8")


def test_the_command_says_undefined_and_refuses_an_empty_file(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "texts.txt"
    data.write_text("the cat sat\na dog ran\n", encoding="utf-8")
    assert ask(model, data, None) == 0
    printed = capsys.readouterr()
    assert "can be compared: self" in printed.err
    assert printed.out.count("undefined ") >= 5
    data.write_text("", encoding="utf-8")
    assert ask(model, data, None) == 1
    assert "is empty" in capsys.readouterr().err


def test_rated_data_give_their_texts_in_every_format(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = list(dict.fromkeys(CORPUS))[:8]
    rows = [
        {"lang": "de-en", "candidate": text, "reference": texts[0], "score": i / 10} for i, text in enumerate(texts)
    ]
    (tmp_path / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    shown = {}
    for data in (f"wmt:{tmp_path / 'rated.jsonl'}", str(tmp_path / "texts.txt")):
        assert main(["diagnose", model, "--data", data, "--device", "cpu", "-q", "--format", "json"]) == 0
        shown[data] = json.loads(capsys.readouterr().out)
    first, second = shown.values()
    assert first == second
    assert main(["diagnose", model, "--data", data, "--device", "cpu", "-q", "--format", "tsv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(first["rows"]) + 1
