"""Every aligner against its oracle; F1 and Eq. 1 from its two sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.align.problems import QUICK, both, problem, ragged, seeds, temperatures, tempered
from tests.oracles import family as oracle
from twmd_registry.align import ALIGNERS, align, combine_sides, similarities
from twmd_registry.registry.names import MetricName, Objective
from twmd_registry.registry.spec import MetricSpec

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
TEMPERINGS = [tempered(0.02, i, o) for i in (1, 3) for o in get_args(Objective)]
temperings = st.tuples(temperatures, st.sampled_from([1, 2, 3]), st.sampled_from(get_args(Objective))).map(
    lambda keys: tempered(*keys)
)


def test_oracles_cover_every_aligner() -> None:
    assert set(ORACLES) == set(ALIGNERS) == set(MetricName) - {MetricName.STSSCORE, MetricName.ENSEMBLE}


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


@QUICK
@pytest.mark.parametrize("metric", ALIGNERS)
@given(sizes=ragged, seed=seeds, tempering=temperings)
def test_both_sides_of_random_ragged_blocks_equal_the_oracle_pair_by_pair(
    metric: MetricName, sizes: list[tuple[int, int]], seed: int, tempering: MetricSpec
) -> None:
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        p = problem(sizes, seed, garbage=1e3, dtype=dtype)
        hypothesis, reference = both(metric, p, tempering)
        for b, s in enumerate(p.similarities):
            own = tolerance * max(1.0, s.size / 10)
            assert float(hypothesis[b]) == pytest.approx(ORACLES[metric](s, tempering), abs=own)
            assert float(reference[b]) == pytest.approx(ORACLES[metric](s.T, tempering), abs=own)


numbers = st.floats(-2, 2, allow_subnormal=False)


def one(first: float, second: float) -> tuple[Tensor, Tensor]:
    """Return both sides, or C of both texts, of one pair."""
    return torch.tensor([first], dtype=torch.float64), torch.tensor([second], dtype=torch.float64)


def test_text_without_self_similarity_scores_zero_and_never_nan() -> None:
    c, own, other = torch.tensor([0.3, 0.3, 0.3]), torch.tensor([0.0, 0.5, -1e-9]), torch.tensor([0.5, 0.0, 0.5])
    assert not combine_sides((c, c), (own, other)).any()
    same = combine_sides((c, c), (own, own), torch.tensor([True, True, False]))
    assert same.tolist() == [[1.0, pytest.approx(0.6), 0.0]] * 3
    assert bool(combine_sides((c, c), (own * torch.nan, other))[:, 0].isnan().all())


def test_normalising_has_finite_gradients_where_it_is_not_defined() -> None:
    own, c = torch.tensor([0.0, 0.5], requires_grad=True), torch.tensor([0.3, 0.3])
    combine_sides((c, c), (own, torch.tensor([0.5, 0.5]))).sum().backward()  # type: ignore[no-untyped-call]
    assert own.grad is not None
    assert bool(torch.isfinite(own.grad).all())


@pytest.mark.parametrize(
    ("p", "r", "f1"),
    [
        (0.5, 0.25, 1 / 3),
        (0.7, 0.7, 0.7),
        (0.0, 0.6, 0.0),
        (0.6, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (-0.2, 0.2, -0.2),
        (-0.2, 0.9, -0.2),
        (-0.3, -0.1, -0.3),
        (1e-30, 1e-30, 1e-30),
    ],
)
def test_f1_is_the_number_by_hand_and_has_finite_gradients(p: float, r: float, f1: float) -> None:
    for dtype, tolerance in ((torch.float64, 1e-15), (torch.float32, 1e-7)):
        sides = [torch.tensor([x], dtype=dtype, requires_grad=True) for x in (p, r)]
        found = combine_sides((sides[0], sides[1]))[2]
        assert found.item() == pytest.approx(f1, abs=tolerance)
        assert all(bool(torch.isfinite(slope).all()) for slope in torch.autograd.grad(found.sum(), sides))


@given(numbers, numbers, st.floats(1e-3, 2), st.floats(1e-3, 2))
def test_normalising_is_eq_1_of_both_sides_and_of_their_f1(p: float, r: float, own: float, other: float) -> None:
    raw = (p, r, oracle.f1(p, r))
    assert combine_sides(one(p, r))[:, 0].tolist() == pytest.approx(raw, abs=1e-12)
    found = combine_sides(one(p, r), one(own, other))[:, 0]
    assert found.tolist() == pytest.approx([oracle.normalised(c, own, other) for c in raw], rel=1e-12, abs=1e-12)
