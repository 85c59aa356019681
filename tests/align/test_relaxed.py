"""``trwmd``: tempered relaxed transport."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given

from tests.align.problems import QUICK, Drawn, matrix, pairs, temperatures
from tests.oracles import family as oracle
from twmd_registry.align.greedy import greedy
from twmd_registry.align.pooled import pooled
from twmd_registry.align.relaxed import relaxed
from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.registry.names import Objective


def entropic(temperature: float) -> AlignmentSettings:
    return AlignmentSettings(temperature, objective=Objective.ENTROPIC)


@QUICK
@given(pairs)
def test_float32_is_as_exact_at_low_temperatures_as_at_any(p: Drawn) -> None:
    # C moves by at most 1 + 2 log(partners) times what S does, whatever the temperature.
    rounded = p.s.to(torch.float32)
    for temperature in (1e-5, 1e-3, 0.1):
        wanted = oracle.relaxed(np.asarray(rounded[0].to(torch.float64).numpy()), temperature)
        assert float(relaxed(rounded, p.hyp, p.ref, AlignmentSettings(temperature))) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.02, 1.0, 7.0])
def test_log_three_advantage_at_t_gives_three_quarters_of_the_weight(temperature: float) -> None:
    best = temperature * math.log(3)
    p = matrix([[0.0, best]])
    assert float(relaxed(*p, AlignmentSettings(temperature))) == pytest.approx(0.75 * best, rel=1e-12)
    assert float(relaxed(*p, entropic(temperature))) == pytest.approx(temperature * math.log(4), rel=1e-12)


@QUICK
@given(pairs, temperatures)
def test_objectives_stand_on_either_side_of_greedy_matching(p: Drawn, temperature: float) -> None:
    best = float(greedy(*p, AlignmentSettings()))
    assert (
        float(pooled(*p, AlignmentSettings())) - 1e-12
        <= float(relaxed(*p, AlignmentSettings(temperature)))
        <= best + 1e-12
    )
    assert (
        best - 1e-12 <= float(relaxed(*p, entropic(temperature))) <= best + temperature * math.log(p.s.shape[2]) + 1e-12
    )


@QUICK
@given(pairs, temperatures)
def test_slope_of_the_entropic_objective_is_the_plan_of_the_expected_one(p: Drawn, temperature: float) -> None:
    s = p.s.clone().requires_grad_()
    (plan,) = torch.autograd.grad(relaxed(s, p.hyp, p.ref, entropic(temperature)).sum(), s)
    np.testing.assert_allclose(plan[0].sum(1), np.full(len(p.array), 1 / len(p.array)), atol=1e-12)
    assert float((plan * p.s).sum()) == pytest.approx(float(relaxed(*p, AlignmentSettings(temperature))), abs=1e-10)


def test_sweeps_do_not_concern_it() -> None:
    p = matrix([[0.1, 0.8], [0.2, -0.4]])
    assert (
        float(relaxed(*p, AlignmentSettings(0.1, None)))
        == float(relaxed(*p, AlignmentSettings(0.1, 1)))
        == float(relaxed(*p, AlignmentSettings(0.1, 9)))
    )
