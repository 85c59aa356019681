"""The plan of every metric: what its rows and columns sum to, and that it makes the score it is said to make."""

from __future__ import annotations

import itertools
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import twmd_registry
from tests.align.problems import QUICK, SIZES, SUMS, different, ragged, seeds, tempered
from tests.align.test_weights import block, drawn
from tests.oracles import movers
from twmd_registry.align import ALIGNERS, PLANS, align, plans, similarities
from twmd_registry.registry.names import Distance, MetricName, Transform
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.tensors import PaddedTokens

WAYS = [tempered(t, i) for t in (0.05, 1.0) for i in (1, 3, None)]
BALANCED = {MetricName.SBERT, MetricName.MOVERSCORE}
COMBINATIONS = list(itertools.product(get_args(Distance), get_args(Transform)))
CLOSE = 1e-6
"""Shares of unweighted tokens are float32, as similarities are when texts are scored."""


def sides(sizes: list[tuple[int, int]], *, weighted: bool, seed: int = 0) -> tuple[PaddedTokens, PaddedTokens]:
    hyp, ref = (block(side, garbage=1e3) for side in drawn(sizes, seed, least=0))
    if weighted:
        return hyp, ref
    return hyp._replace(weights=hyp.mask.double()), ref._replace(weights=ref.mask.double())


def shares(side: PaddedTokens, b: int) -> np.ndarray:
    return np.asarray((side.weights[b] / side.weights[b].sum()).numpy())


def test_every_aligner_has_a_plan() -> None:
    assert set(PLANS) == set(ALIGNERS)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("metric", "how"), different(WAYS))
def test_plan_carries_every_tokens_share_nothing_of_padding_and_gives_c(
    metric: MetricName, how: MetricSpec, weighted: bool
) -> None:
    x, y = sides(SIZES, weighted=weighted)
    s, cells = similarities(x, y), x.mask[:, :, None] & y.mask[:, None, :]
    precision, recall = both = plans(s, x, y, how)
    for plan, wanted in zip(both, align(s, x, y, how), strict=True):
        assert plan.shape == s.shape
        assert float(plan[~cells].abs().max()) == 0
        made = (plan * s.where(cells, 0.0)).sum((1, 2)).to(torch.float64)
        torch.testing.assert_close(made, wanted, atol=CLOSE, rtol=CLOSE)
    if metric in SUMS:
        return
    assert min(float(plan.min()) for plan in both) >= 0
    fixed_point = metric is MetricName.TWMD and how.iterations == "converged"
    for b in range(len(SIZES)):
        np.testing.assert_allclose(precision[b].sum(1), shares(x, b), atol=1e-5 if fixed_point else CLOSE)
        np.testing.assert_allclose(recall[b].sum(0), shares(y, b), atol=1e-5 if fixed_point else CLOSE)
        if metric in BALANCED or fixed_point:
            np.testing.assert_allclose(precision[b].sum(0), shares(y, b), atol=1e-5 if fixed_point else CLOSE)


def test_pooling_spreads_evenly_and_wordset_cka_weighs_each_similarity_by_itself() -> None:
    x, y = sides(SIZES, weighted=True)
    s = similarities(x, y)
    pooled, kernel = (
        plans(s, x, y, tempered().replace(metric=metric))[0] for metric in (MetricName.SBERT, MetricName.WORDSET_CKA)
    )
    for b, (n, m) in enumerate(SIZES):
        np.testing.assert_allclose(pooled[b], np.outer(shares(x, b), shares(y, b)), atol=1e-12)
        np.testing.assert_allclose(
            kernel[b, :n, :m], np.outer(x.weights[b, :n], y.weights[b, :m]) * s[b, :n, :m].numpy(), atol=1e-12
        )


def test_tempered_plan_is_the_softmax_of_trwmd_and_the_first_sweeps_rows_of_twmd() -> None:
    x, y = sides([(3, 4)], weighted=True, seed=8)
    s, t = similarities(x, y), 0.2
    raw = y.weights[0].numpy() * np.exp(s[0].numpy() / t)
    wanted = shares(x, 0)[:, None] * raw / raw.sum(1, keepdims=True)
    np.testing.assert_allclose(plans(s, x, y, tempered(t).replace(metric=MetricName.TRWMD))[0][0], wanted, atol=1e-12)
    swept = x.weights[0].numpy()[:, None] * np.exp(s[0].numpy() / t)
    swept = swept / swept.sum(0) * y.weights[0].numpy()
    swept = swept / swept.sum(1, keepdims=True).clip(1e-300) * shares(x, 0)[:, None]
    np.testing.assert_allclose(plans(s, x, y, tempered(t, 1))[0][0], swept, atol=1e-12)


@QUICK
@given(sizes=ragged, seed=seeds, weighted=st.booleans())
def test_every_distance_and_transform_is_the_linear_programs_and_the_plan_times_the_cost(
    sizes: list[tuple[int, int]], seed: int, weighted: bool
) -> None:
    hyp, ref = drawn(sizes, seed, least=0)
    x, y = sides(sizes, weighted=weighted, seed=seed)
    for distance, transform in COMBINATIONS:
        how = MetricSpec(metric=MetricName.MOVERSCORE, distance=distance, transform=transform)
        s = similarities(x, y, distance)
        plan = plans(s, x, y, how)[0]
        found = align(s, x, y, how)[0]
        for b, (n, m) in enumerate(sizes):
            cost = movers.costs(hyp[b].vectors, ref[b].vectors, distance)
            emd = movers.emd(cost, shares(x, b)[:n], shares(y, b)[:m])
            assert float((plan[b, :n, :m].numpy() * cost).sum()) == pytest.approx(emd, abs=1e-9)
            assert float(found[b]) == pytest.approx(movers.score(emd, transform), abs=1e-9)


@pytest.mark.parametrize(("distance", "transform"), COMBINATIONS)
def test_gradients_of_every_distance_are_finite_even_where_vectors_are_identical(
    distance: Distance, transform: Transform
) -> None:
    x, _ = sides(SIZES, weighted=True)
    s = similarities(x, x, distance).clamp(max=1.0).requires_grad_()
    found = ALIGNERS[MetricName.MOVERSCORE](
        s, x, x, MetricSpec(metric=MetricName.MOVERSCORE, distance=distance, transform=transform)
    )
    (slope,) = torch.autograd.grad(found.sum(), s)
    assert bool(torch.isfinite(slope).all())


@pytest.mark.parametrize("transform", get_args(Transform))
@pytest.mark.parametrize("idf", ["none", "corpus"])
def test_sentence_scores_exactly_one_with_itself_by_euclidean_distance(transform: str, idf: str) -> None:
    same = ["A heron waits at the weir.", "Nobody mended the lighthouse bell, so the fog went unannounced.", "Yes"]
    with twmd_registry.scorer("moverscore", distance="euclidean", transform=transform, idf=idf) as mover:
        assert mover.score(same, same).scores == (1.0, 1.0, 1.0)
