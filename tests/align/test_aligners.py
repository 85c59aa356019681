"""Every aligner, weighted or not, against its oracle; gradients and plans; F1 and Eq. 1 from both sides."""

from __future__ import annotations

import itertools
import re
import warnings
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import twmd_registry
from tests.align.problems import QUICK, SUMS, different, of_metric, problem, ragged, seeds, tempered, unpadded
from tests.oracles import family, movers
from twmd_registry.align import ALIGNERS, align, combine_sides, plans, similarities
from twmd_registry.align.exact import exact, invert_cost
from twmd_registry.align.sinkhorn import sinkhorn
from twmd_registry.errors import TwmdWarning
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.names import CONVERGED, Distance, MetricName, Objective, Transform
from twmd_registry.registry.spec import make_spec
from twmd_registry.tensors import PaddedTokens

OBJECTIVES = get_args(Objective)
FIXED_POINT = 3e-5
"""Tolerance of a fixed point: sweeps stop with column sums within 1e-5."""
hows = st.builds(
    tempered,
    st.sampled_from([0.02, 0.05, 0.1, 0.5, 1.0, 10.0]),
    st.sampled_from([1, 2, 5]),
    st.sampled_from(OBJECTIVES),
)


def c(x: PaddedTokens, y: PaddedTokens, how: MetricSpec) -> tuple[Tensor, Tensor]:
    return align(similarities(x, y), x, y, how)


def check(sizes: list[tuple[int, int]], x: PaddedTokens, y: PaddedTokens, how: MetricSpec, tolerance: float) -> None:
    """Compare C of both sides with the oracle, pair by pair."""
    both = c(x, y, how)
    for b in range(len(sizes)):
        (hyp, a), (ref, w) = unpadded(x, b), unpadded(y, b)
        for found, s, weights, other in ((both[0], hyp @ ref.T, a, w), (both[1], ref @ hyp.T, w, a)):
            keys = {"temperature": how.temperature, "iterations": how.iterations, "objective": how.objective}
            expected = family.c(how.metric, s, weights, other, **keys)
            assert float(found[b]) == pytest.approx(expected, abs=tolerance, rel=tolerance)


@QUICK
@pytest.mark.parametrize("metric", ALIGNERS)
@given(sizes=ragged, seed=seeds, weighted=st.booleans(), how=hows)
def test_both_sides_of_random_ragged_blocks_equal_the_oracle_pair_by_pair(
    metric: MetricName, sizes: list[tuple[int, int]], seed: int, weighted: bool, how: MetricSpec
) -> None:
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        check(sizes, *problem(sizes, seed, weighted=weighted, dtype=dtype), of_metric(metric, how), tolerance)


@settings(QUICK, max_examples=10)
@given(sizes=ragged, seed=seeds, weighted=st.booleans(), how=hows.filter(lambda how: how.temperature != 0.02))
def test_fixed_point_equals_the_oracles(
    sizes: list[tuple[int, int]], seed: int, weighted: bool, how: MetricSpec
) -> None:
    tolerance = FIXED_POINT * max(1, how.temperature or 1)
    check(sizes, *problem(sizes, seed, weighted=weighted), how.replace(iterations="converged"), tolerance)


@pytest.mark.parametrize("metric", [MetricName.TWMD, MetricName.TRWMD])
@pytest.mark.parametrize("temperature", [1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("sweeps", [1, 3])
def test_choices_of_a_token_sum_to_one_in_float32_at_any_temperature(
    metric: MetricName, temperature: float, sweeps: int
) -> None:
    x, y = problem(dtype=torch.float32)
    # All partners are alike, so every choice has the same gain.
    gains = torch.linspace(-0.4, 0.9, x.mask.shape[1])
    spec = of_metric(metric, tempered(temperature, sweeps))
    found = align(gains[:, None].expand(similarities(x, y).shape), x, y, spec)[0]
    for gained, tokens in zip(found, x.mask, strict=True):
        assert float(gained) == pytest.approx(float(gains[tokens].mean()), abs=2e-7)


def test_sinkhorn_without_convergence_warns_with_the_error_of_the_marginals(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in (("MAX_CHECKS", 1), ("CHECK_EVERY", 1), ("WARM_SWEEPS", 0)):
        monkeypatch.setitem(sinkhorn.__globals__, name, number)
    x, y = problem([(6, 9)])
    with pytest.warns(TwmdWarning, match="did not converge") as caught:
        found = float(c(x, y, tempered(0.05, None))[0])
    s = unpadded(x, 0)[0] @ unpadded(y, 0)[0].T
    rows = np.exp(s / 0.05)  # without a warm start the only sweep normalises the rows
    plan = rows / rows.sum(1, keepdims=True) / 6
    words = r"at T=0\.05: after 1 sweeps the marginals are off by up to (\S+)\. Raise the temperature"
    (stated,) = re.findall(words, str(caught[0].message))
    assert float(stated) == pytest.approx(sum(abs(total - 1 / 9) for total in plan.sum(0)), rel=0.06)
    assert found == pytest.approx(float((plan * s).sum()), abs=1e-10)


@pytest.mark.filterwarnings("ignore:numItermax reached")
def test_early_stop_of_the_solver_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(exact.__globals__, "MAX_ITERATIONS", 1)
    with pytest.warns(TwmdWarning, match="exact transport of 9 x 8 tokens stopped early"):
        c(*problem([(9, 8)]), make_spec("moverscore"))


def test_exact_scores_do_not_depend_on_the_number_of_threads() -> None:
    both, threads, found = problem([(3, 5), (4, 4), (6, 2), (1, 3), (5, 5)], seed=3), torch.get_num_threads(), []
    try:
        for number in (1, 2, 8):
            torch.set_num_threads(number)
            found.append(c(*both, make_spec("moverscore"))[0])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize(
    ("metric", "how"),
    different(tempered(t, i, o) for t in (1e-4, 0.01, 100.0) for i in (1, 20, None) for o in OBJECTIVES),
)
def test_scores_are_in_range_and_gradients_finite_at_any_temperature(metric: MetricName, how: MetricSpec) -> None:
    x, y = problem([(1, 1), (3, 3), (5, 4)], seed=3, weighted=True)
    s = similarities(x, y).to(torch.float32).requires_grad_()
    hyp, ref = (PaddedTokens(side.mask, side.weights.float()) for side in (x, y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TwmdWarning)
        found = ALIGNERS[metric](s, hyp, ref, how)
    (slope,) = torch.autograd.grad(found.sum(), s)
    assert bool(torch.isfinite(slope).all())
    if how.objective == "expected" and metric not in SUMS:
        cells = x.mask[:, :, None] & y.mask[:, None, :]
        lowest, highest = s.masked_fill(~cells, 2).amin((1, 2)), s.masked_fill(~cells, -2).amax((1, 2))
        assert bool(((found >= lowest - 1e-5) & (found <= highest + 1e-5)).all())
    assert bool(torch.isfinite(found).all())
    assert float(slope.abs().amax((1, 2)).min()) > 0
    partners = ref.mask if metric is MetricName.BERTSCORE_CENTERED else ref.weights > 0
    assert float(slope[~((hyp.weights > 0)[:, :, None] & partners[:, None, :])].abs().max()) == 0


BALANCED = {MetricName.SBERT, MetricName.MOVERSCORE}
COMBINATIONS = list(itertools.product(get_args(Distance), get_args(Transform)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("metric", "how"), different(tempered(t, i) for t in (0.05, 1.0) for i in (1, 3, None)))
def test_plan_has_the_marginals_and_c_and_ignores_padding(metric: MetricName, how: MetricSpec, weighted: bool) -> None:
    x, y = problem(weighted=weighted)
    s, cells = similarities(x, y), x.mask[:, :, None] & y.mask[:, None, :]
    precision, recall = both = plans(s, x, y, how)
    for plan, carried in zip(both, align(s, x, y, how), strict=True):
        assert plan.shape == s.shape
        assert float(plan[~cells].abs().max()) == 0
        torch.testing.assert_close((plan * s.where(cells, 0.0)).sum((1, 2)), carried, atol=1e-9, rtol=1e-9)
    if metric in SUMS:
        return
    assert min(float(plan.min()) for plan in both) >= 0
    fixed_point = metric is MetricName.TWMD and how.iterations == CONVERGED
    close = 1e-5 if fixed_point else 1e-9
    torch.testing.assert_close(precision.sum(2), x.shares, atol=close, rtol=0)
    torch.testing.assert_close(recall.sum(1), y.shares, atol=close, rtol=0)
    if metric in BALANCED or fixed_point:
        torch.testing.assert_close(precision.sum(1), y.shares, atol=close, rtol=0)


def transformed(c: Tensor, transform: Transform) -> Tensor:
    """Return the engine's scores from C."""
    return invert_cost(c) if transform == "inverse" else c


@QUICK
@given(sizes=ragged, seed=seeds, weighted=st.booleans())
def test_distances_and_transforms_equal_the_linear_program_and_plan_times_cost(
    sizes: list[tuple[int, int]], seed: int, weighted: bool
) -> None:
    x, y = problem(sizes, seed, weighted=weighted)
    for distance, transform in COMBINATIONS:
        how, s = make_spec("moverscore", distance=distance), similarities(x, y, distance)
        plan, found = plans(s, x, y, how)[0], transformed(align(s, x, y, how)[0], transform)
        for b, (n, m) in enumerate(sizes):
            (hyp, a), (ref, w) = unpadded(x, b), unpadded(y, b)
            cost = movers.costs(hyp, ref, distance)
            emd = movers.emd(cost, a, w)
            assert float((plan[b, :n, :m].numpy() * cost).sum()) == pytest.approx(emd, abs=1e-9)
            assert float(found[b]) == pytest.approx(movers.score(emd, transform), abs=1e-9)


@pytest.mark.parametrize(("distance", "transform"), COMBINATIONS)
def test_gradients_of_every_distance_are_finite_for_identical_vectors(distance: Distance, transform: Transform) -> None:
    x, _ = problem(weighted=True)
    s = similarities(x, x, distance).clamp(max=1.0).requires_grad_()
    found = ALIGNERS[MetricName.MOVERSCORE](s, x, x, make_spec("moverscore", distance=distance))
    (slope,) = torch.autograd.grad(transformed(found, transform).sum(), s)
    assert bool(torch.isfinite(slope).all())


@pytest.mark.parametrize("transform", get_args(Transform))
@pytest.mark.parametrize("idf", ["none", "corpus"])
def test_euclidean_distance_scores_identical_sentences_exactly_one(transform: Transform, idf: str) -> None:
    same = ["A heron waits at the weir.", "Nobody mended the lighthouse bell, so the fog went unannounced.", "Yes"]
    with twmd_registry.load("moverscore", distance="euclidean", transform=transform, idf=idf) as mover:
        assert mover.score(same, same).scores == [1.0, 1.0, 1.0]


def test_text_without_self_similarity_scores_zero_and_never_nan() -> None:
    c, self_hyp, other = torch.tensor([0.3, 0.3, 0.3]), torch.tensor([0.0, 0.5, -1e-9]), torch.tensor([0.5, 0.0, 0.5])
    assert not combine_sides((c, c), (self_hyp, other)).any()
    same = combine_sides((c, c), (self_hyp, self_hyp), torch.tensor([True, True, False]))
    assert same.tolist() == [[1.0, pytest.approx(0.6), 0.0]] * 3
    assert bool(combine_sides((c, c), (self_hyp * torch.nan, other))[:, 0].isnan().all())


def test_undefined_normalisation_has_finite_gradients() -> None:
    self_hyp, c = torch.tensor([0.0, 0.5], requires_grad=True), torch.tensor([0.3, 0.3])
    combine_sides((c, c), (self_hyp, torch.tensor([0.5, 0.5]))).sum().backward()  # type: ignore[no-untyped-call]
    assert self_hyp.grad is not None
    assert bool(torch.isfinite(self_hyp.grad).all())


def test_f1_gradients_are_finite_if_a_side_is_zero_or_negative() -> None:
    sides = [
        torch.tensor(x, requires_grad=True)
        for x in ([0.5, 0, 0.6, 0, -0.2, -0.3, 1e-30], [0.25, 0.6, 0, 0, 0.2, -0.1, 1e-30])
    ]
    found = combine_sides((sides[0], sides[1]))[2]
    assert found.tolist() == pytest.approx([1 / 3, 0, 0, 0, -0.2, -0.3, 1e-30], abs=1e-7)
    assert all(bool(torch.isfinite(slope).all()) for slope in torch.autograd.grad(found.sum(), sides))
