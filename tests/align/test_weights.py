"""Weights are multiplicities: a token that counts twice is two copies of it. Gradients and plans of weighted tokens."""

from __future__ import annotations

import itertools
import warnings
from typing import NamedTuple, get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import twmd_registry
from tests.align.problems import QUICK, SIZES, SUMS, Problem, both, different, ragged, seeds, tempered
from tests.oracles import family, movers
from twmd_registry.align import ALIGNERS, PLANS, align, plans, similarities
from twmd_registry.align.exact import invert_cost
from twmd_registry.errors import TwmdWarning
from twmd_registry.registry.names import Distance, MetricName, Objective, Transform
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.tensors import PaddedTokens, TokenVectors, pad

HOW = [tempered(t, i, o) for t in (0.05, 1.0) for i in (1, 3, None) for o in get_args(Objective)]
EXPECTED = [how for how in HOW if how.objective == "expected"]
CONVERGED = 3e-5
"""Two ways to a fixed point end this close together: each stops with column sums within 1e-5."""


class Text(NamedTuple):
    """One text's unit vectors and how often each of them counts."""

    vectors: np.ndarray
    times: list[int]


def block(texts: list[Text], *, written_out: bool = False, garbage: float = 0.0) -> PaddedTokens:
    """Return texts side by side, tokens weighed or written out as many copies; `garbage` fills padded vectors."""
    rows = [movers.copies(*text) if written_out else text.vectors for text in texts]
    lengths = torch.tensor([len(row) for row in rows])
    weights = (
        None if written_out else torch.tensor([float(t) for text in texts for t in text.times], dtype=torch.float64)
    )
    found = pad(TokenVectors(torch.tensor(np.concatenate(rows)), lengths, weights=weights), torch.arange(len(rows)))
    vectors = torch.where(found.mask[..., None], found.vectors, garbage)
    assert not found.weights[~found.mask].any()
    return found._replace(vectors=vectors)


def texts(sizes: list[int], seed: int, least: int = 1, most: int = 4) -> list[Text]:
    draw = np.random.default_rng(seed)
    found = []
    for size in sizes:
        vectors = draw.normal(size=(size, 6)) + 0.7
        times = draw.integers(least, most + 1, size).tolist()
        found.append(
            Text(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), times if sum(times) else [1, *times[1:]])
        )
    return found


def drawn(sizes: list[tuple[int, int]], seed: int = 0, least: int = 1) -> tuple[list[Text], list[Text]]:
    return texts([n for n, _ in sizes], seed, least), texts([m for _, m in sizes], seed + 1, least)


def c(metric: MetricName, x: PaddedTokens, y: PaddedTokens, how: MetricSpec) -> tuple[Tensor, Tensor]:
    return both(metric, Problem(x, y, []), how)


def near(how: MetricSpec, metric: MetricName) -> float:
    return CONVERGED if how.iterations == "converged" and metric is MetricName.TWMD else 1e-10


def times(side: PaddedTokens, factor: float | Tensor) -> PaddedTokens:
    return side._replace(weights=side.weights * factor)


@pytest.mark.parametrize(("metric", "how"), different(HOW))
def test_token_of_weight_k_counts_as_k_copies_of_it_in_a_text_alone(metric: MetricName, how: MetricSpec) -> None:
    greedy = metric is MetricName.BERTSCORE_CENTERED  # where a token of weight zero is not absent: see below
    x, y = drawn(SIZES, least=int(greedy))
    assert greedy or any(0 in text.times for text in [*x, *y])
    together = c(metric, block(x, garbage=-77.0), block(y, garbage=1e3), how)
    for b in range(len(SIZES)):
        hyp, ref = (block(side[b : b + 1], written_out=True) for side in (x, y))
        alone = c(metric, hyp, ref, how)
        for side, written in zip(together, alone, strict=True):
            assert float(side[b]) == pytest.approx(float(written), rel=near(how, metric), abs=near(how, metric))


@pytest.mark.parametrize(("metric", "how"), different(EXPECTED))
def test_scaling_the_weights_of_a_side_scales_c_of_metrics_that_sum_only(metric: MetricName, how: MetricSpec) -> None:
    x, y = (block(side) for side in drawn(SIZES))
    factor = 2.5 * 0.4 * 3 if metric in SUMS else 1.0
    for one, other in zip(c(metric, times(x, 2.5 * 3), times(y, 0.4), how), c(metric, x, y, how), strict=True):
        torch.testing.assert_close(one, factor * other, atol=near(how, metric), rtol=1e-12)


@pytest.mark.parametrize("temperature", [0.05, 1.0])
@pytest.mark.parametrize("metric", [MetricName.TRWMD, MetricName.TWMD])
def test_k_times_as_many_partners_add_t_log_k_to_an_entropic_objective(metric: MetricName, temperature: float) -> None:
    x, y = (block(side) for side in drawn(SIZES))
    how = tempered(temperature, 2, "entropic")
    more = c(metric, x, times(y, 3.0), how)[0] - c(metric, x, y, how)[0]
    torch.testing.assert_close(more, torch.full_like(more, temperature * np.log(3)), atol=1e-12, rtol=0)


def test_greedy_token_of_weight_zero_counts_for_nothing_but_may_be_chosen() -> None:
    x, y = drawn(SIZES, least=0)
    precision, recall = c(MetricName.BERTSCORE_CENTERED, block(x), block(y), tempered())
    for b, (hyp, ref) in enumerate(zip(x, y, strict=True)):
        s = hyp.vectors @ ref.vectors.T
        assert float(precision[b]) == pytest.approx(family.greedy(movers.copies(s, hyp.times)), abs=1e-12)
        assert float(recall[b]) == pytest.approx(family.greedy(movers.copies(s.T, ref.times)), abs=1e-12)


@pytest.mark.parametrize(
    ("metric", "how"),
    different(tempered(t, i, o) for t in (1e-4, 0.01, 100.0) for i in (1, 20, None) for o in get_args(Objective)),
)
def test_scores_are_in_range_and_gradients_finite_from_cold_to_hot_and_zero_where_nothing_is_carried(
    metric: MetricName, how: MetricSpec
) -> None:
    x, y = (block(side, garbage=1e3) for side in drawn([(1, 1), (3, 3), (5, 4)], least=0))
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


@pytest.mark.parametrize(
    ("metric", "how"),
    [
        *different(tempered(t, 2, o) for t in (0.02, 1.0) for o in get_args(Objective)),
        *((MetricName.TWMD, tempered(1.0, None, objective)) for objective in get_args(Objective)),
    ],
)
def test_gradients_are_those_of_the_formula(metric: MetricName, how: MetricSpec) -> None:
    x, y = (block(side) for side in drawn([(3, 4), (2, 3)], seed=5))
    s = (0.1 * similarities(x, y)).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: ALIGNERS[metric](z, x, y, how), (s,), eps=1e-7, atol=1e-4)


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


def transformed(c: Tensor, transform: Transform) -> Tensor:
    """Return what the engine makes of C."""
    return invert_cost(c) if transform == "inverse" else c


@QUICK
@given(sizes=ragged, seed=seeds, weighted=st.booleans())
def test_every_distance_and_transform_is_the_linear_programs_and_the_plan_times_the_cost(
    sizes: list[tuple[int, int]], seed: int, weighted: bool
) -> None:
    hyp, ref = drawn(sizes, seed, least=0)
    x, y = sides(sizes, weighted=weighted, seed=seed)
    for distance, transform in COMBINATIONS:
        how = MetricSpec(metric=MetricName.MOVERSCORE, distance=distance)
        s = similarities(x, y, distance)
        plan = plans(s, x, y, how)[0]
        found = transformed(align(s, x, y, how)[0], transform)
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
    found = ALIGNERS[MetricName.MOVERSCORE](s, x, x, MetricSpec(metric=MetricName.MOVERSCORE, distance=distance))
    (slope,) = torch.autograd.grad(transformed(found, transform).sum(), s)
    assert bool(torch.isfinite(slope).all())


@pytest.mark.parametrize("transform", get_args(Transform))
@pytest.mark.parametrize("idf", ["none", "corpus"])
def test_sentence_scores_exactly_one_with_itself_by_euclidean_distance(transform: str, idf: str) -> None:
    same = ["A heron waits at the weir.", "Nobody mended the lighthouse bell, so the fog went unannounced.", "Yes"]
    with twmd_registry.scorer("moverscore", distance="euclidean", transform=transform, idf=idf) as mover:
        assert mover.score(same, same).scores == (1.0, 1.0, 1.0)
