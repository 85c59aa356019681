"""Scorers in threads and forks, or closed by another thread during use, score like new ones."""

from __future__ import annotations

import importlib
import os
from collections.abc import Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import MagicMock
from weakref import WeakValueDictionary

import pytest
import torch

import twmd_registry
from tests.processes import in_a_fork
from tests.tiny import WORDS
from twmd_registry.engine.scorer import load
from twmd_registry.models import inference
from twmd_registry.models.inference import LoadedModel

TEXTS = [" ".join(WORDS[start : start + length]) for start, length in ((0, 5), (3, 2), (7, 9), (12, 4), (1, 1), (6, 6))]


LONG = TEXTS[:3] * 20, TEXTS[3:] * 20  # enough for operators to run in parallel


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Compute with two threads on any machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("parent", ["keeps its scorer", "has closed it", "has used torch itself"])
def test_fork_of_a_multithreaded_process_scores(parent: str, bert: str) -> None:
    given = load("twmd", model=bert, layer=2, centering="none")
    expected = pytest.approx(given.score(*LONG).scores, abs=1e-6)
    if parent != "keeps its scorer":
        given.close()
    if parent == "has used torch itself":
        torch.rand(500, 500).matmul(torch.rand(500, 500)).relu().sum()
    assert in_a_fork(lambda: bool(given.score(*LONG).scores == expected))
    assert given.score(*LONG).scores == expected


@pytest.mark.usefixtures("two_threads")
def test_fork_keeps_the_threads_that_the_program_has_set(bert: str) -> None:
    given = load("twmd", model=bert, layer=2, centering="none")
    given.score(*LONG)

    def count() -> bool:
        before, _, after = torch.get_num_threads(), given.score(*LONG), torch.get_num_threads()
        return before == after == 2

    assert in_a_fork(count)


def test_engine_is_imported_on_systems_without_forks() -> None:
    def reload() -> bool:
        del os.register_at_fork  # as on Windows
        importlib.reload(inference)
        return True

    assert in_a_fork(reload)


PREDICTIONS = [f"the number {i} is on the list" for i in range(12)]
REFERENCES = [f"number {i + i % 2} is listed" for i in range(12)]


def test_threads_share_models_and_scorers_and_score_like_one_thread() -> None:
    asked = [load("twmd", layer=1), load("twmd", layer=4), load("moverscore", layer=6), load("stsscore")]
    alone = [one.score(PREDICTIONS, REFERENCES).scores for one in asked]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda one: one.score(PREDICTIONS, REFERENCES).scores, asked * 4))
    for expected, found in zip(alone * 4, together, strict=True):
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("metric", ["trwmd", "stsscore"])
def test_waiting_scorer_keeps_its_model_if_another_thread_closes_it(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "LOADED", WeakValueDictionary[Hashable, Any]())  # other tests keep models
    scorer = twmd_registry.load(metric)
    alone = scorer.score(PREDICTIONS, REFERENCES)

    lock = scorer.backend.model.lock = MagicMock()
    lock.__enter__.side_effect = lambda *_: scorer.close()
    used: list[Any] = []
    run_batches = LoadedModel.run_batches

    def note(model: LoadedModel, *args: Any, **options: Any) -> Any:
        used.append(model.lock)
        return run_batches(model, *args, **options)

    monkeypatch.setattr(LoadedModel, "run_batches", note)
    with scorer:
        assert scorer.score(PREDICTIONS, REFERENCES).scores == pytest.approx(alone.scores, abs=1e-6)
    assert all(own is lock for own in used)
    assert used
