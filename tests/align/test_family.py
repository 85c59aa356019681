"""Every aligner against its oracle, and the laws that hold for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from tests.align.problems import (
    QUICK,
    SIZES,
    SUMS,
    Problem,
    both,
    different,
    evenly,
    problem,
    ragged,
    seeds,
    temperatures,
    tempered,
)
from tests.oracles import family as oracle
from twmd_registry import tensors
from twmd_registry.align import ALIGNERS, SYMMETRIC, align, combine_sides, similarities
from twmd_registry.errors import TwmdWarning
from twmd_registry.registry.names import MetricName, Objective
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.tensors import PaddedTokens

ORACLES: dict[MetricName, Callable[[np.ndarray, MetricSpec], float]] = {
    MetricName.SBERT: lambda s, t: oracle.pooled(s),
    MetricName.WORDSET_CKA: lambda s, t: oracle.kernel(s),
    MetricName.BERTSCORE_CENTERED: lambda s, t: oracle.greedy(s),
    MetricName.MOVERSCORE: lambda s, t: oracle.exact(s),
    MetricName.TRWMD: lambda s, t: oracle.relaxed(s, t.temperature or 1.0, entropic=t.objective == "entropic"),
    MetricName.TWMD: lambda s, t: oracle.sinkhorn(
        s, t.temperature or 1.0, int(t.iterations or 1), entropic=t.objective == "entropic"
    ),
}
TEMPERINGS = [tempered(t, i, o) for t in (0.02, 0.1, 1.0) for i in (1, 3) for o in get_args(Objective)]


def shuffled(side: PaddedTokens, draw: np.random.Generator, order: Tensor) -> PaddedTokens:
    """Return each text's tokens in any order, before its padding as ever; the texts in the order given."""
    vectors = side.vectors.clone()
    for b, n in enumerate(side.mask.sum(1).tolist()):
        vectors[b, :n] = side.vectors[b, torch.from_numpy(draw.permutation(n))]
    return PaddedTokens(side.mask[order], side.weights[order], vectors[order])


def assert_like_the_oracle(metric: MetricName, p: Problem, tempering: MetricSpec, tolerance: float) -> None:
    hypothesis, reference = both(metric, p, tempering)
    for b, s in enumerate(p.similarities):
        scale = max(1.0, s.size / 10)
        assert float(hypothesis[b]) == pytest.approx(ORACLES[metric](s, tempering), abs=tolerance * scale)
        assert float(reference[b]) == pytest.approx(ORACLES[metric](s.T, tempering), abs=tolerance * scale)


def test_oracles_cover_every_aligner() -> None:
    assert set(ORACLES) == set(ALIGNERS) == set(MetricName) - {MetricName.STSSCORE, MetricName.ENSEMBLE}


@pytest.mark.parametrize(("metric", "tempering"), different(TEMPERINGS))
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 2e-6)])
def test_both_sides_equal_the_oracle(
    metric: MetricName, tempering: MetricSpec, dtype: torch.dtype, tolerance: float
) -> None:
    assert_like_the_oracle(metric, problem(dtype=dtype, garbage=1e3), tempering, tolerance)


@pytest.mark.parametrize("metric", [MetricName.TWMD, MetricName.TRWMD])
@pytest.mark.parametrize("temperature", [1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("sweeps", [1, 3])
def test_choices_of_a_token_sum_to_one_in_float32_at_any_temperature(
    metric: MetricName, temperature: float, sweeps: int
) -> None:
    p = problem(dtype=torch.float32, garbage=1e3)
    # To every token all partners are alike, so that it gains the same whichever it chooses.
    own = torch.linspace(-0.4, 0.9, p.x.mask.shape[1])
    spec = tempered(temperature, sweeps).replace(metric=metric)
    found = align(own[:, None].expand(similarities(p.x, p.y).shape), p.x, p.y, spec)[0]
    for gained, tokens in zip(found, p.x.mask, strict=True):
        assert float(gained) == pytest.approx(float(own[tokens].mean()), abs=2e-7)


@pytest.mark.parametrize("metric", [MetricName.TWMD, MetricName.TRWMD])
@pytest.mark.parametrize("tempering", TEMPERINGS[:4])
@pytest.mark.parametrize("cells", [1, 40])
def test_tempering_slab_by_slab_changes_nothing(
    metric: MetricName, tempering: MetricSpec, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = problem(garbage=1e3)
    whole = both(metric, p, tempering)
    monkeypatch.setattr(tensors, "CHUNK_CELLS", cells)
    torch.testing.assert_close(both(metric, p, tempering), whole, atol=1e-14, rtol=0)


@pytest.mark.parametrize("metric", ALIGNERS)
def test_swapping_the_texts_exchanges_the_sides(metric: MetricName) -> None:
    p = problem()
    there, back = (both(metric, each, tempered(0.1, 3)) for each in (p, Problem(p.y, p.x, [])))
    torch.testing.assert_close(there, back[::-1])
    assert (metric in SYMMETRIC) is bool(torch.allclose(*there))


@QUICK
@pytest.mark.parametrize("metric", ALIGNERS)
@given(sizes=ragged, seed=seeds, temperature=temperatures)
def test_random_ragged_blocks_equal_the_oracle_pair_by_pair(
    metric: MetricName, sizes: list[tuple[int, int]], seed: int, temperature: float
) -> None:
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        assert_like_the_oracle(
            metric, problem(sizes, seed, garbage=1e3, dtype=dtype), tempered(temperature, 2), tolerance
        )


@QUICK
@pytest.mark.parametrize("metric", ALIGNERS)
@given(sizes=ragged, seed=seeds, temperature=temperatures)
def test_any_permutation_of_tokens_and_of_pairs_changes_nothing(
    metric: MetricName, sizes: list[tuple[int, int]], seed: int, temperature: float
) -> None:
    p, draw = problem(sizes, seed, garbage=1e3), np.random.default_rng(seed)
    order = torch.from_numpy(draw.permutation(len(sizes)))
    turned = Problem(shuffled(p.x, draw, order), shuffled(p.y, draw, order), [])
    before, after = (both(metric, each, tempered(temperature, 2)) for each in (p, turned))
    torch.testing.assert_close(tuple(side[order] for side in before), after, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(("metric", "tempering"), different([*TEMPERINGS, tempered(1.0, None)]))
def test_normalised_by_eq_1_a_text_scores_one_with_itself(metric: MetricName, tempering: MetricSpec) -> None:
    p = problem(garbage=1e3)
    sides = align(similarities(p.x, p.x), p.x, p.x, tempering)
    own = ALIGNERS[metric](similarities(p.x, p.x), p.x, p.x, tempering)
    wanted = torch.ones(3, len(SIZES), dtype=torch.float64)
    torch.testing.assert_close(combine_sides(sides, (own, own)), wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("metric", "tempering"),
    different(tempered(t, i, o) for t in (1e-4, 1e-2, 100.0) for i in (1, 20, None) for o in get_args(Objective)),
)
def test_scores_and_gradients_are_finite_from_cold_to_hot(metric: MetricName, tempering: MetricSpec) -> None:
    p = problem([(1, 1), (3, 3), (5, 4)], dtype=torch.float32, garbage=1e4)
    s = similarities(p.x, p.y).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TwmdWarning)
        found = ALIGNERS[metric](s, evenly(p.x.mask), evenly(p.y.mask), tempering)
    (slope,) = torch.autograd.grad(found.sum(), s)
    assert bool(torch.isfinite(found).all())
    assert bool(torch.isfinite(slope).all())
    if tempering.objective == "expected" and metric not in SUMS:
        lowest, highest = (
            torch.tensor([extreme(each) for each in p.similarities], dtype=torch.float32)
            for extreme in (np.min, np.max)
        )
        assert bool(((found >= lowest - 1e-5) & (found <= highest + 1e-5)).all())


@pytest.mark.parametrize(
    ("metric", "tempering"),
    [
        *different(tempered(t, 2, o) for t in (0.02, 1.0) for o in get_args(Objective)),
        *((MetricName.TWMD, tempered(1.0, None, objective)) for objective in get_args(Objective)),
    ],
)
def test_gradients_are_those_of_the_formula(metric: MetricName, tempering: MetricSpec) -> None:
    s = torch.tensor(np.random.default_rng(3).normal(size=(2, 3, 4)) * 0.1, requires_grad=True)
    hyp = evenly(torch.tensor([[True, True, True], [True, True, False]]))
    ref = evenly(torch.tensor([[True, True, True, True], [True, True, True, False]]))
    assert torch.autograd.gradcheck(lambda x: ALIGNERS[metric](x, hyp, ref, tempering), (s,), eps=1e-7, atol=1e-4)
