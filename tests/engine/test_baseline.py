"""Baseline rescaling: fitted on random pairs, kept by hash, applied to every side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twmd_registry
from twmd_registry.engine.baseline import random_pairs
from twmd_registry.errors import InputError, ModelError, SpecError

CORPUS = [
    "a heron at the weir",
    "bread and butter",
    "the bell rang twice",
    "snow in the quarry",
    "my uncle paints boats",
    "trains are late again",
]
PREDICTIONS = ["the heron stood there", "it snowed", "nobody rang the bell"]
REFERENCES = [["a heron was standing there", "birds"], ["there was snow"], ["the bell was not rung"]]
METRICS = ["twmd", "trwmd", "moverscore", "bertscore_centered", "wordset_cka", "stsscore", "sbert"]


def fitted(folder: Path, metric: str, **keys: Any) -> Path:
    return twmd_registry.load(metric, **keys).fit_baseline(CORPUS, pairs=8).save(folder)


@pytest.mark.parametrize("metric", METRICS)
def test_every_side_is_rescaled_by_the_mean_of_its_random_pairs(metric: str, tmp_path: Path) -> None:
    path = fitted(tmp_path, metric)
    unrelated = twmd_registry.load(metric).score(*random_pairs(CORPUS, 8, 0))
    plain, rescaled = (
        twmd_registry.load(metric, baseline=baseline).score(PREDICTIONS, REFERENCES) for baseline in (None, path)
    )
    for side in ("scores", "precision", "recall", "f1"):
        before, after, chance = (getattr(one, side) for one in (plain, rescaled, unrelated))
        if before is None:
            assert after is None
            continue
        b = float(np.mean(chance))
        assert after == pytest.approx((np.array(before) - b) / (1 - b), abs=1e-9)
    assert rescaled.scores != plain.scores


def test_rescaled_scores_support_explanations_outputs_and_multiref(tmp_path: Path) -> None:
    path = fitted(tmp_path, "twmd")
    keys: tuple[dict[str, Any], ...] = ({}, {"output": "recall"}, {"multiref": "mean"})
    for own in keys:
        found = twmd_registry.load("twmd", baseline=path, **own).score(PREDICTIONS, REFERENCES)
        assert found.explain(1).score == found.scores[1]


def test_baseline_of_other_settings_is_refused(tmp_path: Path) -> None:
    path = fitted(tmp_path, "twmd", model="embedded")
    words = r"other settings \(layer: 4 in the file, 3 here; ngram: none in the file, 2 here; temperature: 0\.15 "
    with pytest.raises(ModelError, match=words):
        twmd_registry.load("twmd", "embedded", baseline=path, layer=3, ngram=2, temperature=0.1).score(
            PREDICTIONS, REFERENCES
        )


@pytest.mark.parametrize(
    "change",
    [
        {"values": {"precision": 1.0}},
        {"values": {"precision": 0.5}},
        {"values": {"precision": float("nan"), "recall": 0, "f1": 0}},
        {"keys": None},
    ],
)
def test_damaged_baseline_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    path = fitted(tmp_path, "twmd")
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")
    with pytest.raises(
        ModelError, match=r"a baseline must be below 1|is not a baseline|contains 1 values: twmd needs 3"
    ):
        twmd_registry.load("twmd", baseline=path).score(PREDICTIONS, REFERENCES)


@pytest.mark.parametrize("metric", ["twmd", "stsscore"])
def test_published_baseline_is_refused_without_a_single_layer(metric: str) -> None:
    with pytest.raises(ModelError, match="bert_score has no baseline"):
        twmd_registry.load(metric, baseline="bert_score:en").score(PREDICTIONS, REFERENCES)


@pytest.mark.parametrize(
    ("metric", "corpus", "error", "words"),
    [
        ("twmd", ["one", "one", " "], InputError, "at least two distinct texts; there are 1"),
        ("twmd;baseline", CORPUS, SpecError, "is set already"),
        ("twmd;against=source", CORPUS, SpecError, "against=source has no baseline"),
        ("twmd;against=both", CORPUS, SpecError, "against=both has no baseline"),
        ("ensemble(sbert,twmd)", CORPUS, SpecError, "an ensemble has no baseline of its own"),
    ],
)
def test_baseline_that_cannot_be_fitted_is_refused(
    metric: str, corpus: list[str], error: type[Exception], words: str, tmp_path: Path
) -> None:
    name, _, given = metric.partition(";")
    key, _, value = given.partition("=")
    keys: dict[str, Any] = {key: value or fitted(tmp_path, name)} if key else {}
    with pytest.raises(error, match=words):
        twmd_registry.load(name, **keys).fit_baseline(corpus)


def test_random_pairs_have_distinct_texts_and_are_reproducible() -> None:
    firsts, seconds = random_pairs(CORPUS * 2, 25, 3)
    assert len(firsts) == len(seconds) == 25
    assert all(one != other for one, other in zip(firsts, seconds, strict=True))
    assert {firsts.count(text) for text in CORPUS} <= {4, 5}
    assert random_pairs(CORPUS[::-1], 25, 3) == (firsts, seconds) != random_pairs(CORPUS, 25, 4)
