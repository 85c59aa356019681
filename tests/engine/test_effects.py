"""Every key of every metric moves scores, and progress counts segments."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.version import Version
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForSequenceClassification

import twmd_registry
from tests import tiny
from twmd_registry import Scorer, load, mbr, score, score_all, score_over_ranks
from twmd_registry.errors import TwmdWarning
from twmd_registry.record.content import InputFile
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName

PREDICTIONS = [
    "The heron was waiting (see the weir).\nIt ran away.",
    "we saw it again \u2603 in the rain",
    "a dog ran",
    "rewritten, unbelievable words: the walker walked on",
    "it rains",
]
REFERENCES = [
    ["A heron waited at the weir.\nIt ran away, too."],
    ["we saw \u2602 today", "rain, again"],
    ["the dog was running over the hill, and on", "a cat"],
    ["the walkers were walking, and wrote unbelievably"],
    ["it is raining"],
]
SOURCES = ["Ein Reiher wartete am Wehr.", "it rains", "ein Hund", "der Wanderer", "es regnet"]
CORPUS = [text for texts in REFERENCES for text in texts]
TEXTS = PREDICTIONS, REFERENCES
BARE: dict[MetricName, dict[str, Any]] = {
    metric: {"layer": 4, "aggregation": "single", "centering": "none", "adapter": None, "ngram": 1}
    for metric in MetricName
    if metric != "ensemble"
}
BARE[MetricName.SBERT] |= {"vectors": "unit"}
BATCH, CORPUS_MEAN = {"centering": "batch", "centering_side": "joint"}, {"centering": "corpus"}
KEYS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "output": ({}, "precision", "recall"),
    "model": ({"layer": 2}, "embedded", "TINY"),
    "adapter": ({}, None, "rated-twmd"),
    "layer": ({}, 2, 4),
    "aggregation": ({"layer": [2, 4]}, "mean", "concat"),
    "special": ({}, "none", "all"),
    "unknown": ({}, "keep", "apart"),
    "subwords": ({}, "keep", "drop"),
    "punctuation": ({}, "keep", "drop"),
    "stopwords": ({}, "none", "STOP"),
    "stopword_unit": ({"stopwords": "STOP"}, "word", "piece"),
    "ngram": ({}, 1, 2),
    "idf": ({}, "none", "corpus"),
    "centering": ({}, "none", "sentence"),
    "centering_size": (BATCH, 2, 3),
    "centering_side": (CORPUS_MEAN, "joint", "separate"),
    "against": ({}, "reference", "source"),
    "source_weight": ({"against": "both"}, 0.2, 0.7),
    "align": ({}, "texts", "sentences"),
    "padding": ({"special": "partners", "model": "TINY", "layer": 2, "centering": "sentence"}, "none", 5),
    "temperature": ({}, 0.1, 0.5),
    "iterations": ({"temperature": 0.05}, 1, 9),
    "objective": ({}, "expected", "entropic"),
    "distance": ({}, "similarity", "euclidean"),
    "transform": ({}, "linear", "inverse"),
    "vectors": ({}, "unit", "raw"),
    "normalize": ({}, True, False),
    "prompt": (
        {"vectors": None, "layer": None, "centering": None, "ngram": None, "aggregation": None, "model": "PROMPTS"},
        "default",
        "none",
    ),
    "activation": ({}, "identity", "sigmoid"),
    "scale": ({}, 0.01, 0.02),
    "first": ({}, "prediction", "reference"),
    "symmetric": ({}, False, True),
    "clip": ({}, False, True),
    "baseline": ({}, "none", "BASELINE"),
    "multiref": ({}, "max", "mean"),
    "truncation": ({}, "cut", "cut:6"),
    "dtype": ({}, "float32", "bfloat16"),
}
"""Other keys, and two values that give different scores. Capitals represent files of the test."""
ELSEWHERE = {"revision": "only the Hub has revisions; tests/models/test_fingerprint.py", "members": "test_ensemble.py"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("files")
    (home / "stop.txt").write_text("the\nre\na\n", encoding="utf-8")
    bert, prompts = tiny.save_encoder("bert", home / "bert"), tiny.save_encoder("bert", home / "prompts")
    (prompts / "1_Pooling").mkdir()
    (prompts / "1_Pooling" / "config.json").write_text(
        f'{{"word_embedding_dimension": {tiny.WIDTH}, "pooling_mode_mean_tokens": true}}', encoding="utf-8"
    )
    library = "sentence_transformers.models"
    (prompts / "modules.json").write_text(
        f'[{{"idx": 0, "name": "0", "path": "", "type": "{library}.Transformer"}},'
        f' {{"idx": 1, "name": "1", "path": "1_Pooling", "type": "{library}.Pooling"}}]',
        encoding="utf-8",
    )
    (prompts / "config_sentence_transformers.json").write_text(
        '{"prompts": {"query": "today we saw "}, "default_prompt_name": "query"}', encoding="utf-8"
    )
    regressor = tiny.save_regressor(home / "regressor")
    other = tiny.save_regressor(home / "other", token_types=1)
    network = AutoModelForSequenceClassification.from_pretrained(regressor)
    lora = LoraConfig(target_modules=["query"], init_lora_weights=False)
    get_peft_model(network, lora).save_pretrained(str(home / "adapter"))
    names = {"TINY": bert, "PROMPTS": prompts, "STOP": home / "stop.txt", "HOME": home}
    names |= {"REGRESSOR": regressor, "OTHER": other, "ADAPTER": home / "adapter"}
    return {name: str(path) for name, path in names.items()}


def scorer_of(metric: MetricName, key: str, value: Any, files: dict[str, str]) -> Scorer:
    keys: dict[str, Any]
    if metric is MetricName.STSSCORE:
        value = {"TINY": "OTHER", "embedded": "REGRESSOR", "rated-twmd": "ADAPTER"}.get(value, value)
        keys = {"model": "REGRESSOR", "scale": 0.01} | KEYS[key][0] | {key: value}
        keys.pop("layer", None)
    else:
        keys = BARE[metric] | {"model": "embedded"} | KEYS[key][0] | {key: value}
    keys = {name: files.get(own, own) if isinstance(own, str) else own for name, own in keys.items()}
    if value == "BASELINE":
        with load(metric, **keys | {"baseline": "none"}) as fitting:
            keys["baseline"] = fitting.fit_baseline(CORPUS, pairs=6).save(Path(files["HOME"]))
    return load(metric, **keys)


REFUSED = {(MetricName.STSSCORE, "dtype")} if Version(version("sentence-transformers")) < Version("6.2") else set()
"""Cases that an older library cannot compute, and the error that explains it."""
CASES = [(metric, key) for metric in BARE for key in CATALOGUE[metric].keys if key not in ELSEWHERE]
CASES = [case for case in CASES if case not in REFUSED]
Pair = tuple[list[float], list[float]]


@pytest.fixture(scope="module")
def scores(files: dict[str, str]) -> dict[tuple[MetricName, str], Pair]:
    """Return what both values of every key of every metric score, in few passes of each model."""
    scorers = {case: [scorer_of(*case, value, files) for value in KEYS[case[1]][1:]] for case in CASES}
    different = {own.requested: own for pair in scorers.values() for own in pair}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TwmdWarning)
        found = dict(zip(different, score_all([*different.values()], *TEXTS, SOURCES), strict=True))
    return {
        case: (found[one.requested].scores, found[other.requested].scores) for case, (one, other) in scorers.items()
    }


@pytest.mark.parametrize(("metric", "key"), CASES)
def test_every_key_of_every_metric_moves_scores(
    metric: MetricName, key: str, scores: dict[tuple[MetricName, str], Pair]
) -> None:
    one, other = scores[metric, key]
    assert np.abs(np.subtract(one, other)).max() > 1e-5


def test_every_key_is_in_the_table() -> None:
    assert {key for entry in CATALOGUE.values() for key in entry.keys} == {*KEYS, *ELSEWHERE}


def calls(function: Callable[..., object], **options: Any) -> list[int]:
    """Return the units of every call of `progress`."""
    done = list[int]()
    function(progress=done.append, **options)
    return done


ALONE = load("twmd", "embedded", layer=3)
LISTS = [["a cat", "the cat", "two dogs"], ["rain", "it rains"]]


def verified(**options: Any) -> Any:
    made = twmd_registry.make_record(
        [("sys", [ALONE.score(*TEXTS)])], seconds=1.0, inputs=[InputFile("predictions", "a", "0" * 64)]
    )
    found = twmd_registry.verify_record(made, [TEXTS], **options)
    return found.agrees, [check.tolerance for check in found.checks], found.differences


PROGRESS: dict[str, tuple[Callable[..., object], dict[str, Any], int]] = {
    "score.progress": (score, {"predictions": PREDICTIONS, "references": REFERENCES}, len(PREDICTIONS)),
    "Scorer.score.progress": (ALONE.score, {"predictions": PREDICTIONS, "references": REFERENCES}, len(PREDICTIONS)),
    "score_all.progress": (
        score_all,
        {"scorers": ["twmd", "sbert", "stsscore"], "predictions": PREDICTIONS, "references": REFERENCES},
        len(PREDICTIONS),
    ),
    "score_over_ranks.progress": (
        score_over_ranks,
        {"scorers": [ALONE], "predictions": PREDICTIONS, "references": REFERENCES},
        len(PREDICTIONS),
    ),
    "Scorer.fit_baseline.progress": (ALONE.fit_baseline, {"texts": CORPUS, "pairs": 9}, 9),
    "mbr.progress": (mbr, {"candidates": LISTS}, 5),
    "verify_record.progress": (verified, {}, len(PREDICTIONS)),
}
"""Functions, their arguments, and the number of segments."""


@pytest.mark.parametrize("name", PROGRESS)
def test_progress_counts_segments(name: str) -> None:
    function, arguments, segments = PROGRESS[name]
    done = calls(function, **arguments)
    assert sum(done) == segments
    assert min(done) > 0
