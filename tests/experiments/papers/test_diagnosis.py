"""Similarities of words per layer against double loops over all pairs, and the rules of the properties."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from experiments.papers import diagnosis
from experiments.papers.diagnosis import Similarity, diagnose, judge
from tests import tiny
from tests.cli.parsing import rows_of
from tests.conftest import Run
from twmd_registry.encode.encoder import Encoder, tokenise
from twmd_registry.encode.mean_vectors import find_background
from twmd_registry.errors import InputError, TwmdWarning
from twmd_registry.models.files import find_model
from twmd_registry.registry.names import CENTERINGS, EMBEDDED_MODEL, CenteringKind
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
DRAWN = [" ".join(R.choice(tiny.WORDS, size=R.integers(2, 6))) for _ in range(30)]
CORPUS = [*SOME, "zebra and okapi ran", "the zebra sat", *DRAWN]
"""More than one batch; a sentence of one word, a sentence twice, words that are not in the tiny vocabulary."""
ALL_PAIRS = 1_000_000


@pytest.fixture(scope="module")
def model(tiny_encoder: Callable[[str], Path]) -> str:
    return str(tiny_encoder("bert"))


class Oracle:
    """Similarities by loops, with every text encoded separately."""

    def __init__(self, name: str, texts: list[str]) -> None:
        files = find_model(name)
        encoder = Encoder(files, None, "float32", torch.device("cpu"))
        self.unknown, self.depth = encoder.tokenizer.unk_token_id, encoder.depth
        self.ids: list[list[int]] = []
        self.vectors: list[list[np.ndarray]] = [[] for _ in range(self.depth + 1)]  # by layer, by text
        with torch.inference_mode():
            for text in texts:
                tokens = tokenise(encoder.tokenizer, [text], encoder.limit)
                is_text = tokens[0].special == 0
                self.ids.append(tokens[0].ids[is_text].tolist())
                for k, vectors in encoder.encode(tokens, range(self.depth + 1)).layers.items():
                    self.vectors[k].append(vectors.double().numpy()[is_text])
        background = find_background(None, files.fingerprint, None) if name == EMBEDDED_MODEL else None
        self.background = None if background is None else background.content["none"].double().numpy()

    def center(self, centering: CenteringKind, k: int) -> list[list[np.ndarray]]:
        """Return unit vectors by text and word; NaN for a zero vector."""
        texts, centered = self.vectors[k], []
        for t, text in enumerate(texts):
            means = {
                "sentence": text.mean(0),
                "batch": np.concatenate(texts[t // 32 * 32 : t // 32 * 32 + 32]).mean(0),
                "corpus": np.concatenate(texts).mean(0),
                "background": None if self.background is None else self.background[k],
            }
            rest = [v - (v.mean() if centering == "dimension" else means.get(centering, 0.0)) for v in text]
            lengths = [(np.linalg.norm(r), np.linalg.norm(v)) for r, v in zip(rest, text, strict=True)]
            centered.append([r / a if a > 1e-6 * b else r * np.nan for r, (a, b) in zip(rest, lengths, strict=True)])
        return centered

    def average(self, similarity: Similarity, centering: CenteringKind, k: int) -> float:
        """Return the mean over strata of their pairs' means, without undefined pairs."""
        vectors = self.center(centering, k)
        places = [(t, w) for t, ids in enumerate(self.ids) for w in range(len(ids))]
        strata: dict[int, list[float]] = {}
        for (t, v), (u, w) in itertools.combinations(places, 2):
            first, second = self.ids[t][v], self.ids[u][w]
            is_same = first == second != self.unknown and self.ids[t] != self.ids[u]
            is_intra = t == u and first != second
            if {"random": True, "self": is_same, "intra": is_intra}[similarity]:
                stratum = {"random": 0, "self": first, "intra": t}[similarity]
                strata.setdefault(stratum, []).append(float(vectors[t][v] @ vectors[u][w]))
        pairs = [(value, 1 / len(values)) for values in strata.values() for value in values if not math.isnan(value)]
        return sum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs)


@pytest.mark.parametrize("which", ["tiny", "embedded"])
def test_every_number_is_the_mean_over_all_pairs(which: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, texts = (model, CORPUS) if which == "tiny" else (EMBEDDED_MODEL, SOME)
    monkeypatch.setattr(diagnosis, "CHUNK_TOKENS", 1)  # a piece per batch
    result, oracle = diagnose(name, texts, RunOptions(batch_tokens=8), pairs=ALL_PAIRS), Oracle(name, texts)
    centerings = tuple(name for name in CENTERINGS if name != "background" or which == "embedded")
    assert (result.centerings, result.estimates.shape[1]) == (centerings, oracle.depth + 1)
    for centering, layer, estimates in result.rows:
        if layer in {0, 1, oracle.depth}:
            for similarity, estimate in estimates.items():
                assert estimate["mean"] == pytest.approx(oracle.average(similarity, centering, layer), abs=2e-6)
                assert estimate["error"] == 0
    assert (result.texts, result.words) == (len(texts), sum(map(len, oracle.ids)))


def test_sample_agrees_with_all_pairs_within_its_error(model: str) -> None:
    exact = diagnose(model, CORPUS, RunOptions(), pairs=ALL_PAIRS).estimates[0, 2]
    samples = [diagnose(model, CORPUS, RunOptions(), pairs=60, seed=seed).estimates[0, 2] for seed in range(12)]
    means, errors = (np.array([sample[field] for sample in samples]) for field in ("mean", "error"))  # (seeds, 3)
    assert (abs(means.mean(0) - exact["mean"]) < 4 * errors.mean(0) / math.sqrt(len(samples))).all()
    assert means.std(0, ddof=1) == pytest.approx(errors.mean(0), rel=0.6)
    assert len({*means[:, 0]}) == len(means)
    assert (samples[0] == diagnose(model, CORPUS, RunOptions(), pairs=60, seed=0).estimates[0, 2]).all()


FALLING, RISING = [0.9, 0.7, 0.75, 0.5], [0.1, 0.2, 0.15, 0.4]
RANDOM, SELF, INTRA = get_args(Similarity)


@pytest.mark.parametrize(
    ("similarity", "means", "expected"),
    [
        (RANDOM, [0.01, -0.02, 0.0, 0.03], True),
        (RANDOM, [0.05, 0.0, 0.0, 0.0], True),
        (RANDOM, [0.0, 0.0, -0.06, 0.0], False),
        (RANDOM, [0.0, math.nan, 0, 0], None),
        (SELF, FALLING, True),
        (SELF, RISING, False),
        (SELF, [0.5, 0.49, 0.48, 0.46], False),  # the change is too small
        (SELF, [0.9, 0.2, 0.3, 0.8], False),  # no trend: a correlation of -0.2
        (SELF, [0.9, math.nan, 0.5, 0.4], None),
        (SELF, FALLING[:2], None),
        (INTRA, RISING, True),
        (INTRA, [0.1, 0.11, 0.12, 0.14], False),
    ],
)
def test_property_holds_by_its_rule(similarity: Similarity, means: list[float], expected: bool | None) -> None:
    holds, evidence = judge(similarity, np.array(means))
    assert holds is expected
    assert ("undefined" in evidence) == (expected is None)


def test_wordless_texts_are_counted_and_too_few_texts_refused(model: str) -> None:
    with pytest.warns(TwmdWarning, match="without a word, left out: 2"):
        result = diagnose(model, [*SOME, " ", "", "the cat " * 40], RunOptions(), pairs=10)
    assert (result.texts, result.empty, result.truncated) == (len(SOME) + 1, 2, 1)
    for n, texts in enumerate((["", " "], ["the cat sat", " "])):
        with pytest.raises(InputError, match=f"texts with a word: {n} of 2"):
            diagnose(model, texts, RunOptions())


def test_diagnose_prints_table_and_verdicts_and_writes_figures(model: str, folder: Path, run: Run) -> None:
    (folder / "texts.txt").write_text("\n".join(CORPUS) + "\n", encoding="utf-8")
    printed = run(f"diagnose texts.txt --set model={model} --device cpu --seed 0 -o out")[1]
    result = diagnose(model, CORPUS, RunOptions())
    assert result.model in printed
    verdicts = [line for line in printed.splitlines() if line.startswith(("pass ", "fail ", "undefined "))]
    assert len(verdicts) == len(result.as_dict()["verdicts"])
    for line, (centering, layer, estimates) in zip(rows_of(Path("out/diagnosis.csv")), result.rows, strict=True):
        assert (line["centering"], int(line["layer"])) == (centering, layer)
        for name, estimate in estimates.items():
            numbers = [float(line[f"{name}{end}"]) for end in ("", "_error", "_pairs", "_left_out")]
            assert numbers == pytest.approx(list(estimate.values()))
    assert Path("out/diagnosis.png").read_bytes().startswith(b"\x89PNG")
    drawn = Path("out/diagnosis.svg").read_text(encoding="utf-8")
    assert all(f">{words}<" in drawn for words in (result.model, "dimension", "layer", "cosine"))
