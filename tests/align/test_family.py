"""Every aligner against its oracle, and the laws that hold for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.oracles import family as oracle
from twmd_registry.align import ALIGNERS, SYMMETRIC, align, align_self, similarities
from twmd_registry.align.sinkhorn import sinkhorn
from twmd_registry.align.tempering import Tempering
from twmd_registry.carriers import Padded, TokenVectors, pad
from twmd_registry.errors import TwmdWarning
from twmd_registry.registry.names import MetricName, Objective

SIZES = [(1, 1), (1, 6), (5, 1), (3, 3), (4, 9), (12, 7), (8, 8)]
ORACLES: dict[MetricName, Callable[[np.ndarray, Tempering], float]] = {
    MetricName.SBERT: lambda s, t: oracle.pooled(s),
    MetricName.WORDSET_CKA: lambda s, t: oracle.kernel(s),
    MetricName.BERTSCORE_CENTERED: lambda s, t: oracle.greedy(s),
    MetricName.MOVERSCORE: lambda s, t: oracle.exact(s),
    MetricName.TRWMD: lambda s, t: oracle.relaxed(s, t.temperature, entropic=t.objective is Objective.ENTROPIC),
    MetricName.TWMD: lambda s, t: oracle.sinkhorn(s, t.temperature, t.iterations or 1, entropic=t.objective is Objective.ENTROPIC),
}
TEMPERINGS = [Tempering(t, i, o) for t in (0.02, 0.1, 1.0) for i in (1, 3) for o in Objective]


class Problem(NamedTuple):
    """Pairs of sets of unit vectors, padded side by side."""

    x: Padded
    y: Padded
    similarities: list[np.ndarray]


def problem(sizes: list[tuple[int, int]] = SIZES, seed: int = 0, garbage: float = 0.0, dtype: torch.dtype = torch.float64) -> Problem:
    draw = np.random.default_rng(seed)
    sets = []
    for side in (0, 1):
        rows = [draw.normal(size=(size[side], 6)) + 0.7 for size in sizes]
        sets.append([row / np.linalg.norm(row, axis=1, keepdims=True) for row in rows])
    padded = []
    for rows in sets:
        tokens = TokenVectors(torch.tensor(np.concatenate(rows), dtype=dtype), torch.tensor([len(row) for row in rows]))
        block = pad(tokens, torch.arange(len(rows)))
        padded.append(block._replace(vectors=torch.where(block.mask[..., None], block.vectors, garbage)))
    x_block, y_block = padded
    return Problem(x_block, y_block, [x @ y.T for x, y in zip(*sets, strict=True)])


def both(metric: MetricName, p: Problem, tempering: Tempering) -> tuple[Tensor, Tensor]:
    sides = align(metric, similarities(p.x, p.y), p.x, p.y, tempering)
    return sides.hypothesis, sides.reference


def test_the_oracles_cover_every_aligner() -> None:
    assert set(ORACLES) == set(ALIGNERS) == set(MetricName) - {MetricName.STSSCORE}


@pytest.mark.parametrize("tempering", TEMPERINGS)
@pytest.mark.parametrize("metric", ALIGNERS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 2e-6)])
def test_both_sides_equal_the_oracle(metric: MetricName, tempering: Tempering, dtype: torch.dtype, tolerance: float) -> None:
    p = problem(dtype=dtype, garbage=1e3)
    hypothesis, reference = both(metric, p, tempering)
    for b, s in enumerate(p.similarities):
        scale = max(1.0, s.size / 10)
        assert float(hypothesis[b]) == pytest.approx(ORACLES[metric](s, tempering), abs=tolerance * scale)
        assert float(reference[b]) == pytest.approx(ORACLES[metric](s.T, tempering), abs=tolerance * scale)


@pytest.mark.parametrize("metric", ALIGNERS)
def test_padding_and_neighbours_change_nothing(metric: MetricName) -> None:
    tempering = Tempering(0.05, 2)
    together, _ = both(metric, problem(garbage=-77.0), tempering)
    clean = problem()
    for b, size in enumerate(SIZES):
        x, y = (
            Padded(side.vectors[b : b + 1, :n], side.mask[b : b + 1, :n], side.counted[b : b + 1, :n])
            for side, n in zip(clean[:2], size, strict=True)
        )
        alone = align(metric, similarities(x, y), x, y, tempering).hypothesis
        assert float(alone[0]) == pytest.approx(float(together[b]), abs=1e-10)


@pytest.mark.parametrize("metric", ALIGNERS)
def test_the_order_of_tokens_does_not_matter(metric: MetricName) -> None:
    p = problem([(6, 9)])
    turned = Problem(p.x._replace(vectors=p.x.vectors.flip(1)), p.y._replace(vectors=p.y.vectors.roll(4, 1)), [])
    for mine, other in zip(both(metric, p, Tempering(0.1, 2)), both(metric, turned, Tempering(0.1, 2)), strict=True):
        assert float(mine) == pytest.approx(float(other), abs=1e-10)


@pytest.mark.parametrize("metric", ALIGNERS)
def test_swapping_the_texts_exchanges_the_sides(metric: MetricName) -> None:
    p = problem()
    there, back = both(metric, p, Tempering(0.1, 3)), both(metric, Problem(p.y, p.x, []), Tempering(0.1, 3))
    torch.testing.assert_close(there[0], back[1])
    torch.testing.assert_close(there[1], back[0])
    assert (metric in SYMMETRIC) is bool(torch.allclose(*there))


@pytest.mark.parametrize("metric", ALIGNERS)
@pytest.mark.parametrize("temperature", [1e-4, 1e-2, 1.0, 100.0])
@pytest.mark.parametrize("iterations", [1, 20])
def test_nothing_overflows_and_both_sides_of_a_text_with_itself_agree(metric: MetricName, temperature: float, iterations: int) -> None:
    p = problem(dtype=torch.float32, garbage=1e4)
    tempering = Tempering(temperature, iterations)
    for side in both(metric, p, tempering):
        assert bool(torch.isfinite(side).all())
    own = similarities(p.x, p.x)
    sides = align(metric, own, p.x, p.x, tempering)
    torch.testing.assert_close(sides.hypothesis, sides.reference, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(align_self(metric, own, p.x, tempering), sides.hypothesis)


def test_cold_trwmd_is_greedy_matching() -> None:
    p = problem(dtype=torch.float32)
    torch.testing.assert_close(
        both(MetricName.TRWMD, p, Tempering(1e-4))[0], both(MetricName.BERTSCORE_CENTERED, p, Tempering())[0], atol=1e-4, rtol=0
    )


def test_cold_converged_twmd_is_exact_transport() -> None:
    p = problem(dtype=torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TwmdWarning)
        cold = both(MetricName.TWMD, p, Tempering(1e-3, None))
    for side in cold:
        torch.testing.assert_close(side, both(MetricName.MOVERSCORE, p, Tempering())[0], atol=1e-3, rtol=0)


@pytest.mark.parametrize("metric", [MetricName.TWMD, MetricName.TRWMD])
def test_hot_tempered_transport_is_pooling(metric: MetricName) -> None:
    p = problem()
    for side in both(metric, p, Tempering(1e7)):
        torch.testing.assert_close(side, both(MetricName.SBERT, p, Tempering())[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("temperature", [0.02, 0.1, 1.0])
def test_converged_twmd_is_the_limit_of_many_sweeps_and_symmetric(temperature: float) -> None:
    p = problem()
    converged = both(MetricName.TWMD, p, Tempering(temperature, None))
    swept = both(MetricName.TWMD, p, Tempering(temperature, 3000))
    torch.testing.assert_close(converged[0], swept[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(converged[0], converged[1], atol=1e-5, rtol=0)


def test_a_pair_converges_the_same_alone() -> None:
    together = both(MetricName.TWMD, problem(), Tempering(0.02, None))[0]
    p = problem()
    for b, (n, m) in enumerate(SIZES):
        x, y = (Padded(side.vectors[b : b + 1, :k], side.mask[b : b + 1, :k], side.counted[b : b + 1, :k]) for side, k in ((p.x, n), (p.y, m)))
        alone = align(MetricName.TWMD, similarities(x, y), x, y, Tempering(0.02, None)).hypothesis
        assert float(alone[0]) == pytest.approx(float(together[b]), abs=1e-12)


def test_one_sweep_has_exact_row_sums_but_not_column_sums() -> None:
    plan = oracle.sinkhorn_plan(problem([(5, 8)]).similarities[0], 0.05, 1)
    assert plan.sum(1) == pytest.approx(np.full(5, 1 / 5))
    assert plan.sum(0) != pytest.approx(np.full(8, 1 / 8), abs=1e-3)
    p = problem([(5, 8)])
    shifted = similarities(p.x, p.y) + torch.arange(5.0)[None, :, None]
    sides = align(MetricName.TWMD, shifted, p.x, p.y, Tempering(0.05, 1))
    assert float(sides.hypothesis[0]) == pytest.approx(oracle.sinkhorn(shifted[0].numpy(), 0.05, 1), abs=1e-10)


@pytest.mark.parametrize("metric", ALIGNERS)
@pytest.mark.parametrize("temperature", [0.02, 0.1, 1.0])
@pytest.mark.parametrize("objective", Objective)
def test_gradients_are_those_of_the_formula(metric: MetricName, temperature: float, objective: Objective) -> None:
    draw = np.random.default_rng(3)
    s = torch.tensor(draw.normal(size=(2, 3, 4)) * 0.1, requires_grad=True)
    hyp = torch.tensor([[True, True, True], [True, True, False]])
    ref = torch.tensor([[True, True, True, True], [True, True, True, False]])
    tempering = Tempering(temperature, 2, objective)
    assert torch.autograd.gradcheck(lambda x: ALIGNERS[metric](x, hyp, ref, tempering), (s,), eps=1e-7, atol=1e-4)


def test_tokens_that_do_not_count_can_still_be_partners() -> None:
    p = problem([(4, 5)])
    counted = torch.tensor([[False, True, True, True]])
    sides = align(MetricName.BERTSCORE_CENTERED, similarities(p.x, p.y), p.x._replace(counted=counted), p.y, Tempering())
    s = p.similarities[0]
    assert float(sides.hypothesis[0]) == pytest.approx(oracle.greedy(s[1:]))
    assert float(sides.reference[0]) == pytest.approx(oracle.greedy(s.T))


def test_a_fixed_point_that_is_not_reached_is_announced_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sinkhorn.__globals__, "MOST_CHECKS", 1)
    p = problem([(6, 9)])
    with pytest.warns(TwmdWarning, match=r"did not converge for 1 pairs at T=0.01: after 50 sweeps the marginals are off by up to \d"):
        both(MetricName.TWMD, p, Tempering(0.01, None))
