"""Scorers in threads and forks, and closed by others while they are used, give the scores of new scorers."""

from __future__ import annotations

from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import MagicMock
from weakref import WeakValueDictionary

import pytest
import torch

import twmd_registry
from tests.processes import in_a_fork
from tests.tiny import WORDS
from twmd_registry.engine.scorer import scorer
from twmd_registry.models import inference
from twmd_registry.models.inference import LoadedModel

TEXTS = [" ".join(WORDS[start : start + length]) for start, length in ((0, 5), (3, 2), (7, 9), (12, 4), (1, 1), (6, 6))]


def test_forked_process_scores_as_its_parent_that_has_scored_by_several_threads(bert: str) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        given = scorer("twmd", model=bert, layer=2, centering="none")
        texts = TEXTS[:3] * 20, TEXTS[3:] * 20  # enough for operators to run in parallel
        expected = pytest.approx(given.score(*texts).scores, abs=1e-6)
        assert in_a_fork(lambda: bool(given.score(*texts).scores == expected))
        assert given.score(*texts).scores == expected
    finally:
        torch.set_num_threads(threads)


PREDICTIONS = [f"the number {i} is on the list" for i in range(12)]
REFERENCES = [f"number {i + i % 2} is listed" for i in range(12)]


def test_threads_share_models_and_scorers_and_get_the_scores_of_one_thread() -> None:
    asked = [scorer("twmd", layer=1), scorer("twmd", layer=4), scorer("moverscore", layer=6), scorer("stsscore")]
    alone = [one.score(PREDICTIONS, REFERENCES).scores for one in asked]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda one: one.score(PREDICTIONS, REFERENCES).scores, asked * 4))
    for expected, found in zip(alone * 4, together, strict=True):
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("metric", ["trwmd", "stsscore"])
def test_scorer_that_another_thread_closes_while_it_waits_uses_the_model_that_it_waited_for(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "LOADED", WeakValueDictionary[Hashable, Any]())  # other tests keep models
    scorer = twmd_registry.scorer(metric)
    alone = scorer.score(PREDICTIONS, REFERENCES)

    lock = scorer.backend.model.lock = MagicMock()
    lock.__enter__.side_effect = lambda *_: scorer.close()
    used: list[Any] = []
    run_batches = LoadedModel.run_batches

    def note(model: LoadedModel, *args: Any) -> Any:
        used.append(model.lock)
        return run_batches(model, *args)

    monkeypatch.setattr(LoadedModel, "run_batches", note)
    with scorer:
        assert scorer.score(PREDICTIONS, REFERENCES).scores == pytest.approx(alone.scores, abs=1e-6)
    assert all(own is lock for own in used)
    assert used
