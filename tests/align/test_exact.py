"""``moverscore``: exact transport."""

from __future__ import annotations

import sys
from typing import Any, get_args

import numpy as np
import pytest
import torch

from tests.align.problems import pair, problem, tempered
from twmd_registry import scorer
from twmd_registry.align import similarities
from twmd_registry.align.exact import exact
from twmd_registry.engine.scorer import score_all
from twmd_registry.errors import TwmdWarning
from twmd_registry.registry.names import Transform


@pytest.mark.filterwarnings("ignore:numItermax reached")
def test_solver_that_stops_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(exact.__globals__, "MAX_ITERATIONS", 1)
    p = pair(9, 8)
    with pytest.warns(TwmdWarning, match="exact transport of 9 x 8 tokens stopped early"):
        exact(*p, tempered())


def test_plan_is_sought_once_whatever_its_cost_is_turned_into(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["the ferry leaves at noon", "a boat sails"], ["the ship departs at twelve o'clock", "one vessel leaves"]
    both = [scorer("moverscore", transform=transform) for transform in get_args(Transform)]
    alone = [one.score(*texts).scores for one in both]
    module = sys.modules["twmd_registry.align.exact"]  # the name itself is the function's in its package
    sought, solve = list[object](), module._plan

    def counted(cost: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> Any:
        sought.append(cost)
        return solve(cost, rows, columns)

    monkeypatch.setattr(module, "_plan", counted)
    together = [found.scores for found in score_all(both, *texts)]
    assert (together, len(sought)) == (alone, len(texts[0]))


def test_scores_do_not_depend_on_the_number_of_threads() -> None:
    p = problem([(3, 5), (4, 4), (6, 2), (1, 3), (5, 5)], seed=3)
    s, hyp, ref = similarities(p.x, p.y), p.x, p.y
    threads, found = torch.get_num_threads(), []
    try:
        for number in (1, 2, 8):
            torch.set_num_threads(number)
            found.append(exact(s, hyp, ref, tempered()))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
