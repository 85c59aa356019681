"""Scorers in several threads of one process."""

from __future__ import annotations

from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakValueDictionary

import pytest

import twmd_registry
from twmd_registry.engine.result import ScoreSet
from twmd_registry.models import inference
from twmd_registry.models.inference import LoadedModel

PREDICTIONS = [f"the number {i} is on the list" for i in range(12)]
REFERENCES = [f"number {i + i % 2} is listed" for i in range(12)]
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("twmd", {"layer": 1}),
    ("twmd", {"layer": 4}),
    ("moverscore", {"layer": 6}),
    ("stsscore", {}),
]


def score(setting: tuple[str, dict[str, Any]]) -> ScoreSet:
    metric, keys = setting
    return twmd_registry.scorer(metric, **keys).score(PREDICTIONS, REFERENCES)


def test_threads_share_models_and_get_the_scores_of_one_thread() -> None:
    alone = [score(setting) for setting in SETTINGS]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(score, SETTINGS * 4))
    for one, other in zip(alone * 4, together, strict=True):
        assert other.scores == pytest.approx(one.scores, abs=1e-6)


def test_one_scorer_can_be_used_by_threads() -> None:
    with twmd_registry.scorer("trwmd") as scorer, ThreadPoolExecutor(4) as pool:
        alone = scorer.score(PREDICTIONS, REFERENCES)
        for other in pool.map(lambda _: scorer.score(PREDICTIONS, REFERENCES), range(8)):
            assert other.scores == pytest.approx(alone.scores, abs=1e-6)


@pytest.mark.parametrize("metric", ["trwmd", "stsscore"])
def test_scorer_that_another_thread_closes_while_it_waits_uses_the_model_that_it_waited_for(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "_LOADED", WeakValueDictionary[Hashable, Any]())  # other tests keep models
    scorer = twmd_registry.scorer(metric)
    alone = scorer.score(PREDICTIONS, REFERENCES)

    class ClosedWhileWaiting(AbstractContextManager[None]):
        def __enter__(self) -> None:
            scorer.close()

        def __exit__(self, *_: object) -> None:
            pass

    lock = scorer.backend.model.lock = ClosedWhileWaiting()
    used: list[Any] = []
    run_batches = LoadedModel.run_batches

    def note(model: LoadedModel, *args: Any) -> Any:
        used.append(model.lock)
        return run_batches(model, *args)

    monkeypatch.setattr(LoadedModel, "run_batches", note)
    with scorer:
        assert scorer.score(PREDICTIONS, REFERENCES).scores == pytest.approx(alone.scores, abs=1e-6)
    assert set(used) == {lock}
