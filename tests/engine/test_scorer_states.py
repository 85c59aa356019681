"""Whatever order scorers are opened, used, parked, closed, copied and robbed of their disk cache in, a score is the
score of a new scorer."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import tempfile
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock
from weakref import WeakValueDictionary

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import twmd_registry
from tests.processes import in_a_fork
from tests.tiny import WORDS, save_encoder
from twmd_registry.encode.disk import cache_folder
from twmd_registry.engine.scorer import Scorer, score_all, scorer
from twmd_registry.models import inference
from twmd_registry.models.inference import LoadedModel

TEXTS = [" ".join(WORDS[start : start + length]) for start, length in ((0, 5), (3, 2), (7, 9), (12, 4), (1, 1), (6, 6))]
PAIRS = [(TEXTS[i], TEXTS[j]) for i in range(len(TEXTS)) for j in range(len(TEXTS)) if i != j]
SOME_PAIRS = st.lists(st.sampled_from(PAIRS), min_size=1, max_size=12)
METRICS = ("twmd", "bertscore_centered", "sbert")
OPTIONS: tuple[dict[str, Any], ...] = ({}, {"keep_references": "1MB"}, {"disk_cache": "1MB"}, {"batch_tokens": 16})


class Scorers(RuleBasedStateMachine):
    opened = Bundle("opened")

    @initialize()
    def make_model(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.model = str(save_encoder("bert", Path(self.folder, "model")))
        self.expected = {}
        for metric in METRICS:
            scores = self.new(metric, {}).score(*map(list, zip(*PAIRS, strict=True))).scores
            self.expected[metric] = dict(zip(PAIRS, scores, strict=True))

    def new(self, metric: str, options: dict[str, Any]) -> Scorer:
        return scorer(metric, model=self.model, layer=2, centering="none", **options)

    def check(self, given: Scorer, pairs: list[tuple[str, str]]) -> None:
        scores = given.score(*map(list, zip(*pairs, strict=True))).scores
        assert scores == pytest.approx([self.expected[given.spec.metric][pair] for pair in pairs], abs=1e-6)

    @rule(target=opened, metric=st.sampled_from(METRICS), options=st.sampled_from(OPTIONS))
    def open(self, metric: str, options: dict[str, Any]) -> Scorer:
        return self.new(metric, options)

    @rule(target=opened, given=opened)
    def copy(self, given: Scorer) -> Scorer:
        copied: Scorer = pickle.loads(pickle.dumps(given))
        return copied

    @rule(given=opened, pairs=SOME_PAIRS)
    def score(self, given: Scorer, pairs: list[tuple[str, str]]) -> None:
        self.check(given, pairs)

    @rule(first=opened, second=opened, pairs=SOME_PAIRS)
    def score_together(self, first: Scorer, second: Scorer, pairs: list[tuple[str, str]]) -> None:
        """Score by two from one encoding, and by both at once in two threads."""
        found = score_all([first, second], *map(list, zip(*pairs, strict=True)))
        for given, scores in zip((first, second), found, strict=True):
            expected = [self.expected[given.spec.metric][pair] for pair in pairs]
            assert scores.scores == pytest.approx(expected, abs=1e-6)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self.check, (first, second), (pairs, pairs[::-1])))

    @rule(given=opened, pairs=SOME_PAIRS, seconds=st.sampled_from([0.001, 0.005, 0.02, 60]))
    def fork(self, given: Scorer, pairs: list[tuple[str, str]], seconds: float) -> None:
        """Score by a forked process, which may be killed, perhaps while it writes the disk cache."""

        def work() -> bool:
            signal.setitimer(signal.ITIMER_REAL, seconds)  # its end kills the process
            self.check(given, pairs)
            return True

        assert in_a_fork(work) or seconds < 60
        self.check(given, pairs)

    @rule(given=opened, end=st.sampled_from([Scorer.park, Scorer.close]))
    def leave(self, given: Scorer, end: Callable[[Scorer], None]) -> None:
        end(given)

    @rule(metric=st.sampled_from(METRICS), pairs=SOME_PAIRS, choice=st.integers(0, 99), size=st.integers(0, 400))
    def damage(self, metric: str, pairs: list[tuple[str, str]], choice: int, size: int) -> None:
        """Cut a file of the disk cache off, or remove the folder, between two scorers that use it."""
        self.check(self.new(metric, {"disk_cache": "1MB"}), pairs)
        files = sorted(path for path in cache_folder().rglob("*") if path.is_file())
        if choice == 0:
            shutil.rmtree(cache_folder())
        else:
            os.truncate(files[choice % len(files)], size)
        self.check(self.new(metric, {"disk_cache": "1MB"}), pairs)

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(cache_folder(), ignore_errors=True)


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
def test_any_order_of_uses_gives_the_scores_of_new_scorers() -> None:
    run_state_machine_as_test(Scorers, settings=settings(max_examples=7, stateful_step_count=15))


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
