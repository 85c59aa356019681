"""``twmd``: tempered balanced transport.

Plans are not returned, so they are read off the scores: a change of the similarities that leaves a plan as it is
changes the score by exactly what that plan gains.
"""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.align.problems import FEW, QUICK, Drawn, matrix, pair, pairs, seeds, temperatures
from tests.oracles import family as oracle
from twmd_registry.align.exact import exact
from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.align.sinkhorn import TOLERANCE, sinkhorn
from twmd_registry.errors import TwmdWarning
from twmd_registry.registry.names import Objective


def score(p: Drawn, tempering: AlignmentSettings) -> float:
    return float(sinkhorn(*p, tempering))


def column_sums(p: Drawn, tempering: AlignmentSettings) -> list[float]:
    """Return what the package's plan gives each reference token: sweeps forget what a whole column gains, the score
    does not.
    """
    units = torch.eye(p.s.shape[2], dtype=torch.float64)
    return [score(p.plus(unit), tempering) - score(p, tempering) for unit in units]


@QUICK
@given(pairs, temperatures, st.sampled_from([1, 2, 5, 20]), st.sampled_from(Objective))
def test_every_number_of_sweeps_is_its_formula(p: Drawn, temperature: float, sweeps: int, objective: Objective) -> None:
    wanted = oracle.sinkhorn(p.array, temperature, sweeps, entropic=objective is Objective.ENTROPIC)
    assert score(p, AlignmentSettings(temperature, sweeps, objective)) == pytest.approx(wanted, abs=1e-9)


def test_one_sweep_by_hand_takes_columns_first_and_rows_last() -> None:
    s = matrix([[math.log(3), 0.0], [0.0, 0.0]])
    # exp(S) = [[3, 1], [1, 1]]; columns: [[3/4, 1/2], [1/4, 1/2]]; rows: [[3/5, 2/5], [1/3, 2/3]]
    assert score(s, AlignmentSettings(1.0, 1)) == pytest.approx(3 / 5 * math.log(3) / 2, rel=1e-12)
    # columns again: [[9/14, 3/8], [5/14, 5/8]]; rows: 36/57 of the first row stays
    assert score(s, AlignmentSettings(1.0, 2)) == pytest.approx(36 / 57 * math.log(3) / 2, rel=1e-12)


@QUICK
@given(pairs, seeds, st.sampled_from([1, 3]))
def test_row_sums_are_exact_after_any_number_of_sweeps(p: Drawn, seed: int, sweeps: int) -> None:
    rows = torch.randn(p.s.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    constant = p._replace(s=rows[None, :, None].expand_as(p.s))
    assert score(constant, AlignmentSettings(0.1, sweeps)) == pytest.approx(float(rows.mean()), abs=1e-12)
    assert score(p.plus(torch.tensor(5.0)), AlignmentSettings(0.1, sweeps)) == pytest.approx(
        score(p, AlignmentSettings(0.1, sweeps)) + 5, abs=1e-9
    )


def test_column_sums_are_not_exact_after_one_sweep_and_nearly_so_after_many() -> None:
    p = pair(5, 8)
    found = column_sums(p, AlignmentSettings(0.05, 1))
    assert found == pytest.approx(oracle.column_sums(oracle.sinkhorn_plan(p.array, 0.05, 1)), abs=1e-10)
    assert max(abs(each - 1 / 8) for each in found) > 1e-2
    assert column_sums(p, AlignmentSettings(0.05, 200)) == pytest.approx([1 / 8] * 8, abs=1e-6)


@FEW
@given(pairs, seeds, st.sampled_from([0.05, 0.2, 1.0]))
def test_fixed_point_respects_both_texts_weights(p: Drawn, seed: int, temperature: float) -> None:
    draw = torch.Generator().manual_seed(seed)
    rows, columns = (torch.rand(k, generator=draw, dtype=torch.float64) for k in p.array.shape)
    converged = AlignmentSettings(temperature, None)
    gain = score(p.plus(rows[:, None] + columns[None, :]), converged) - score(p, converged)
    assert gain == pytest.approx(float(rows.mean() + columns.mean()), abs=10 * TOLERANCE)


@FEW
@given(pairs, st.sampled_from([0.05, 0.2, 1.0]), st.sampled_from(Objective))
def test_fixed_point_is_where_many_sweeps_lead(p: Drawn, temperature: float, objective: Objective) -> None:
    plan = oracle.sinkhorn_plan(p.array, temperature, 500)
    while max(abs(np.array(oracle.column_sums(plan)) - 1 / p.array.shape[1])) > 1e-7:
        plan = oracle.sinkhorn_plan(np.log(plan), 1.0, 500)
    wanted = float((plan * p.array).sum())
    if objective is Objective.ENTROPIC:
        wanted -= temperature * float((plan * np.log(plan * len(plan))).sum())
    assert score(p, AlignmentSettings(temperature, None, objective)) == pytest.approx(
        wanted, abs=10 * TOLERANCE * max(1, temperature)
    )


@FEW
@given(pairs)
def test_fixed_point_nears_exact_transport_from_below_as_it_cools(p: Drawn) -> None:
    scores = [score(p, AlignmentSettings(temperature, None)) for temperature in (1.0, 0.2, 0.04)]
    best = float(exact(*p, AlignmentSettings()))
    assert all(warmer <= colder + 10 * TOLERANCE for warmer, colder in zip(scores, [*scores[1:], best], strict=True))
    assert best - scores[-1] <= 0.04 * math.log(p.s[0].numel()) + 10 * TOLERANCE


def test_fixed_point_keeps_the_dtype_it_was_given() -> None:
    p = pair(4, 6)
    single = sinkhorn(p.s.float(), p.hyp, p.ref, AlignmentSettings(0.1, None))
    assert single.dtype == torch.float32
    assert float(single) == pytest.approx(score(p, AlignmentSettings(0.1, None)), abs=1e-5)


def test_reaching_the_fixed_point_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isfinite(score(pair(7, 5), AlignmentSettings(0.1, None)))


def test_not_reaching_it_is_announced_with_the_error_of_the_marginals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sinkhorn.__globals__, "MAX_CHECKS", 1)
    monkeypatch.setitem(sinkhorn.__globals__, "CHECK_EVERY", 1)
    monkeypatch.setitem(sinkhorn.__globals__, "WARM_SWEEPS", 0)
    p = pair(6, 9)
    with pytest.warns(TwmdWarning, match="did not converge") as caught:
        found = score(p, AlignmentSettings(0.05, None))
    # without a warm start the only sweep normalises the rows of exp(S/T)
    rows = np.exp(p.array / 0.05)
    plan = rows / rows.sum(1, keepdims=True) / 6
    stated = re.search(
        r"at T=0\.05: after 1 sweeps the marginals are off by up to (\S+)\. Raise the temperature",
        str(caught[0].message),
    )
    assert stated is not None
    assert float(stated[1]) == pytest.approx(sum(abs(each - 1 / 9) for each in oracle.column_sums(plan)), rel=0.06)
    assert found == pytest.approx(float((plan * p.array).sum()), abs=1e-10)
