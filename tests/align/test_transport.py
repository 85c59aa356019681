"""Exact, tempered and relaxed transport: warnings, fixed points, threads and rounding."""

from __future__ import annotations

import re
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.align.problems import FEW, QUICK, Drawn, pair, pairs, problem, temperatures, tempered
from tests.oracles import family as oracle
from twmd_registry.align import similarities
from twmd_registry.align.exact import exact
from twmd_registry.align.relaxed import relaxed
from twmd_registry.align.sinkhorn import TOLERANCE, sinkhorn
from twmd_registry.errors import TwmdWarning
from twmd_registry.registry.names import Objective
from twmd_registry.registry.spec import MetricSpec


def score(p: Drawn, tempering: MetricSpec) -> float:
    return float(sinkhorn(*p, tempering))


@QUICK
@given(pairs, temperatures, st.sampled_from([1, 2, 5, 20]), st.sampled_from(get_args(Objective)))
def test_every_number_of_sweeps_is_its_formula(p: Drawn, temperature: float, sweeps: int, objective: Objective) -> None:
    wanted = oracle.sinkhorn(p.array, temperature, sweeps, entropic=objective == "entropic")
    assert score(p, tempered(temperature, sweeps, objective)) == pytest.approx(wanted, abs=1e-9)


@FEW
@given(pairs, st.sampled_from([0.05, 0.2, 1.0]), st.sampled_from(get_args(Objective)))
def test_fixed_point_is_where_many_sweeps_lead(p: Drawn, temperature: float, objective: Objective) -> None:
    plan = oracle.sinkhorn_plan(p.array, temperature, 500)
    while max(abs(plan.sum(0) - 1 / p.array.shape[1])) > 1e-7:
        plan = oracle.sinkhorn_plan(np.log(plan), 1.0, 500)
    wanted = float((plan * p.array).sum())
    if objective == "entropic":
        wanted -= temperature * float((plan * np.log(plan * len(plan))).sum())
    assert score(p, tempered(temperature, None, objective)) == pytest.approx(
        wanted, abs=10 * TOLERANCE * max(1, temperature)
    )


@pytest.mark.filterwarnings("error")
def test_fixed_point_keeps_the_dtype_it_was_given_without_a_warning() -> None:
    p = pair(4, 6)
    single = sinkhorn(p.s.float(), p.hyp, p.ref, tempered(0.1, None))
    assert single.dtype == torch.float32
    assert float(single) == pytest.approx(score(p, tempered(0.1, None)), abs=1e-5)


def test_not_reaching_it_is_announced_with_the_error_of_the_marginals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sinkhorn.__globals__, "MAX_CHECKS", 1)
    monkeypatch.setitem(sinkhorn.__globals__, "CHECK_EVERY", 1)
    monkeypatch.setitem(sinkhorn.__globals__, "WARM_SWEEPS", 0)
    p = pair(6, 9)
    with pytest.warns(TwmdWarning, match="did not converge") as caught:
        found = score(p, tempered(0.05, None))
    # without a warm start the only sweep normalises the rows of exp(S/T)
    rows = np.exp(p.array / 0.05)
    plan = rows / rows.sum(1, keepdims=True) / 6
    stated = re.search(
        r"at T=0\.05: after 1 sweeps the marginals are off by up to (\S+)\. Raise the temperature",
        str(caught[0].message),
    )
    assert stated is not None
    assert float(stated[1]) == pytest.approx(sum(abs(each - 1 / 9) for each in plan.sum(0)), rel=0.06)
    assert found == pytest.approx(float((plan * p.array).sum()), abs=1e-10)


@pytest.mark.filterwarnings("ignore:numItermax reached")
def test_solver_that_stops_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(exact.__globals__, "MAX_ITERATIONS", 1)
    p = pair(9, 8)
    with pytest.warns(TwmdWarning, match="exact transport of 9 x 8 tokens stopped early"):
        exact(*p, tempered())


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


@QUICK
@given(pairs)
def test_float32_is_as_exact_at_low_temperatures_as_at_any(p: Drawn) -> None:
    # C moves by at most 1 + 2 log(partners) times what S does, whatever the temperature.
    rounded = p.s.to(torch.float32)
    for temperature in (1e-5, 1e-3, 0.1):
        wanted = oracle.relaxed(np.asarray(rounded[0].to(torch.float64).numpy()), temperature)
        assert float(relaxed(rounded, p.hyp, p.ref, tempered(temperature))) == pytest.approx(wanted, abs=1e-6)
