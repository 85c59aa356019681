"""Sources in the interfaces of other libraries: all give the engine's scores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import evaluate
import pytest

import twmd_registry
from twmd_registry.errors import InputError, SpecError
from twmd_registry.plugins.panel import make_panel, score_evaluation
from twmd_registry.plugins.sacrebleu import TWMD
from twmd_registry.plugins.transformers import texts_of
from twmd_registry.plugins.trl import reward_function

PREDICTIONS = ["a dog barked at night", "the train to Berlin left at 9:30"]
SOURCES = ["the hound was loud last night", "at 9:30 the Berlin train departed"]
REFERENCES = ["the dog was barking", "the Berlin train departed at 9:30"]


@pytest.fixture(scope="module")
def wanted() -> dict[str, Any]:
    return {
        against: twmd_registry.score(PREDICTIONS, REFERENCES, sources=SOURCES, against=against).as_dict()
        for against in ("source", "both")
    }


def test_evaluate_scores_against_sources(wanted: dict[str, Any]) -> None:
    metric = evaluate.load("twmd", against="source")
    assert metric.compute(predictions=PREDICTIONS, sources=SOURCES) == wanted["source"]
    assert metric.compute(predictions=PREDICTIONS, references=REFERENCES, sources=SOURCES) == wanted["source"]
    both = metric.compute(predictions=PREDICTIONS, references=REFERENCES, sources=SOURCES, against="both")
    assert both == wanted["both"]
    for text in PREDICTIONS:
        metric.add_batch(predictions=[text])
    with pytest.raises(ValueError, match="Bad inputs for (metric|evaluation module): .*sources"):
        metric.add_batch(predictions=PREDICTIONS, sources=SOURCES)
    assert metric.compute(sources=SOURCES) == wanted["source"]
    default = evaluate.load("twmd")
    same = default.compute(predictions=PREDICTIONS, references=SOURCES, sources=SOURCES)
    assert same == twmd_registry.score(PREDICTIONS, SOURCES, sources=SOURCES).as_dict()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"references": REFERENCES}, "pass sources, one per prediction"),
        ({"sources": [SOURCES[0], None]}, r"sources\[1\] must be a text; got None"),
    ],
)
def test_evaluate_names_wrong_sources_and_recovers(texts: dict[str, Any], message: str, wanted: dict[str, Any]) -> None:
    metric = evaluate.load("twmd", against="source")
    with pytest.raises(InputError, match=message):
        metric.compute(**{"predictions": PREDICTIONS, **texts})
    assert metric.compute(predictions=PREDICTIONS, sources=SOURCES) == wanted["source"]


@pytest.mark.parametrize("make", [reward_function, TWMD])
def test_rewards_and_sacrebleu_metrics_refuse_source_based_metrics(make: Callable[..., object]) -> None:
    with pytest.raises(SpecError, match="against=source needs sources, and this framework"):
        make(preset=None, against="source")


def test_ranks_score_against_sources_only(wanted: dict[str, Any]) -> None:
    scorers = [twmd_registry.load("twmd", against="source")]
    assert twmd_registry.score_over_ranks(scorers, PREDICTIONS, sources=SOURCES)[0].as_dict() == wanted["source"]


def test_trainer_evaluations_score_against_sources(wanted: dict[str, Any]) -> None:
    panel = make_panel([twmd_registry.load("twmd", against="both")])
    references = texts_of(PREDICTIONS, "references", REFERENCES, REFERENCES, {})
    sources = texts_of(PREDICTIONS, "sources", lambda _data: SOURCES, REFERENCES, {})
    found = score_evaluation(panel, PREDICTIONS, references, sources)
    assert found.values["twmd"] == pytest.approx(wanted["both"]["twmd"], abs=1e-6)
    assert texts_of(None, "sources", None, REFERENCES, {}) is None
    with pytest.raises(InputError, match="1 sources for an evaluation set of 2 rows"):
        texts_of(None, "sources", SOURCES[:1], REFERENCES, {})


def test_service_scores_against_sources(wanted: dict[str, Any]) -> None:
    pytest.importorskip("prometheus_client")
    from twmd_registry.serve.service import Service, ServiceError

    service = Service({"twmd": twmd_registry.load("twmd", against="source")}, max_characters=100)

    async def answer() -> list[Any]:
        async with service.running():
            calls = service.score(PREDICTIONS, sources=SOURCES), service.align(PREDICTIONS[0], SOURCES[0])
            refused = service.score(PREDICTIONS, sources=["x" * 101, "y"]), service.score(PREDICTIONS, [*REFERENCES])
            return [*await asyncio.gather(*calls, *refused, return_exceptions=True)]

    scored, aligned, long, missing = asyncio.run(answer())
    assert scored["scores"] == wanted["source"]["scores"]
    assert aligned["score"] == pytest.approx(wanted["source"]["scores"][0], abs=1e-6)
    assert isinstance(long, ServiceError)
    assert isinstance(missing, InputError)
    pairs = service.registry.get_sample_value("twmd_pairs_total", {"metric": "twmd"})
    assert pairs == 2 * len(PREDICTIONS) + 1  # the alignment's, and those without sources
