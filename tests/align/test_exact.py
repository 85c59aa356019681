"""``moverscore``: exact transport."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from tests.align.problems import QUICK, Drawn, matrix, pair, pairs, problem
from tests.oracles import family as oracle
from twmd_registry import scorer
from twmd_registry.align import similarities
from twmd_registry.align.exact import exact
from twmd_registry.align.greedy import greedy
from twmd_registry.align.pooled import pooled
from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.engine.scorer import score_all
from twmd_registry.errors import TwmdWarning
from twmd_registry.registry.names import Transform


def plan_of(p: Drawn) -> Tensor:
    s = p.s.clone().requires_grad_()
    (plan,) = torch.autograd.grad(exact(s, p.hyp, p.ref, AlignmentSettings()).sum(), s)
    return plan[0]


@pytest.mark.parametrize("n", [2, 5, 9])
def test_texts_of_the_same_length_are_matched_one_to_one(n: int) -> None:
    p = pair(n, n, seed=n)
    assert float(exact(*p, AlignmentSettings())) == pytest.approx(oracle.best_assignment(p.array), abs=1e-12)
    np.testing.assert_allclose(np.sort(plan_of(p).numpy(), axis=1)[:, -1], np.full(n, 1 / n), atol=1e-12)


@QUICK
@given(pairs)
def test_gradient_is_the_plan_and_its_sums_are_the_texts_weights(p: Drawn) -> None:
    plan, (n, m) = plan_of(p).numpy(), p.array.shape
    np.testing.assert_allclose(plan.sum(1), np.full(n, 1 / n), atol=1e-12)
    np.testing.assert_allclose(plan.sum(0), np.full(m, 1 / m), atol=1e-12)
    assert plan.min() >= 0
    assert float((plan * p.array).sum()) == pytest.approx(oracle.exact(p.array), abs=1e-9)


@QUICK
@given(pairs)
def test_it_is_no_worse_than_spreading_evenly_and_no_better_than_greed_on_either_side(p: Drawn) -> None:
    found = float(exact(*p, AlignmentSettings()))
    assert float(pooled(*p, AlignmentSettings())) - 1e-12 <= found
    assert (
        found
        <= min(float(greedy(*p, AlignmentSettings())), float(greedy(p.s.mT, p.ref, p.hyp, AlignmentSettings()))) + 1e-12
    )


def test_token_that_must_be_shared_is_shared() -> None:
    assert float(exact(*matrix([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), AlignmentSettings())) == pytest.approx(2 / 3)


@pytest.mark.filterwarnings("ignore:numItermax reached")
def test_solver_that_stops_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(exact.__globals__, "MAX_ITERATIONS", 1)
    p = pair(9, 8)
    with pytest.warns(TwmdWarning, match="exact transport of 9 x 8 tokens stopped early"):
        exact(*p, AlignmentSettings())


def test_plan_is_sought_once_whatever_its_cost_is_turned_into(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["the ferry leaves at noon", "a boat sails"], ["the ship departs at twelve o'clock", "one vessel leaves"]
    both = [scorer("moverscore", transform=transform) for transform in Transform]
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
            found.append(exact(s, hyp, ref, AlignmentSettings()))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
