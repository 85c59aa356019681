"""``twmd``: tempered balanced transport."""

from __future__ import annotations

import math
import re
import warnings
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.align.problems import FEW, QUICK, Drawn, pair, pairs, temperatures, tempered
from tests.oracles import family as oracle
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


def test_fixed_point_keeps_the_dtype_it_was_given() -> None:
    p = pair(4, 6)
    single = sinkhorn(p.s.float(), p.hyp, p.ref, tempered(0.1, None))
    assert single.dtype == torch.float32
    assert float(single) == pytest.approx(score(p, tempered(0.1, None)), abs=1e-5)


def test_reaching_the_fixed_point_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isfinite(score(pair(7, 5), tempered(0.1, None)))


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
