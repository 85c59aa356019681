"""From C(X, Y) to scores: F1, Eq. 1, several references."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import family as oracle
from twmd_registry.engine.reduction import (
    combine_sides,
    empty_score,
    harmonic_mean,
    normalise,
    over_references,
)
from twmd_registry.registry.names import Multiref
from twmd_registry.tensors import Sides

numbers = st.floats(-2, 2, allow_subnormal=False)


@given(numbers, numbers)
def test_the_harmonic_mean_is_defined_everywhere(p: float, r: float) -> None:
    found = float(harmonic_mean(torch.tensor([p], dtype=torch.float64), torch.tensor([r], dtype=torch.float64)))
    assert found == pytest.approx(oracle.f1(p, r), abs=1e-12)
    assert min(p, r) - 1e-12 <= found <= max(p, r) + 1e-12


@given(st.floats(1e-6, 2))
def test_the_harmonic_mean_is_continuous_where_one_side_reaches_zero(p: float) -> None:
    near, at = (
        float(harmonic_mean(torch.tensor([p], dtype=torch.float64), torch.tensor([r], dtype=torch.float64)))
        for r in (1e-12, 0.0)
    )
    assert near == pytest.approx(at, abs=1e-11)


def test_f1_is_taken_first_and_normalised_afterwards() -> None:
    p, r, own, other = 0.6, 0.4, 0.8, 0.5
    found = combine_sides(Sides(torch.tensor([p]), torch.tensor([r])), (torch.tensor([own]), torch.tensor([other])))
    scale = (own * other) ** 0.5
    assert [float(side) for side in found] == pytest.approx([p / scale, r / scale, oracle.f1(p, r) / scale])
    raw = combine_sides(Sides(torch.tensor([p]), torch.tensor([r])), None)
    assert [float(side) for side in raw] == pytest.approx([p, r, oracle.f1(p, r)])


def test_a_text_without_self_similarity_scores_zero_and_never_nan() -> None:
    c, own, other = torch.tensor([0.3, 0.3, 0.3]), torch.tensor([0.0, 0.5, -1e-9]), torch.tensor([0.5, 0.0, 0.5])
    assert normalise(c, own, other).tolist() == [0.0, 0.0, 0.0]
    assert normalise(c, own, own, torch.tensor([True, True, False])).tolist() == [1.0, pytest.approx(0.6), 0.0]
    assert normalise(c, own * torch.nan, other)[0].isnan()


def test_normalising_has_finite_gradients_where_it_is_not_defined() -> None:
    own = torch.tensor([0.0, 0.5], requires_grad=True)
    normalise(torch.tensor([0.3, 0.3]), own, torch.tensor([0.5, 0.5])).sum().backward()  # type: ignore[no-untyped-call]
    assert own.grad is not None
    assert bool(torch.isfinite(own.grad).all())


def test_empty_texts_have_their_documented_scores() -> None:
    assert [empty_score(h, r) for h in (True, False) for r in (True, False) if h or r] == [1.0, 0.0, 0.0]


@given(st.lists(st.lists(st.floats(-1, 1), min_size=1, max_size=4), min_size=1, max_size=6))
def test_references_are_reduced_segment_by_segment(segments: list[list[float]]) -> None:
    flat, counts = np.concatenate([np.array(s) for s in segments]), np.array([len(s) for s in segments])
    assert over_references(flat, counts, Multiref.MAX).tolist() == [max(s) for s in segments]
    assert over_references(flat, counts, Multiref.MEAN).tolist() == pytest.approx([sum(s) / len(s) for s in segments])


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
    ],
)
def test_f1_by_hand(p: float, r: float, f1: float) -> None:
    assert float(
        harmonic_mean(torch.tensor([p], dtype=torch.float64), torch.tensor([r], dtype=torch.float64))
    ) == pytest.approx(f1, abs=1e-15)


@pytest.mark.parametrize(("p", "r"), [(0.5, 0.25), (0.0, 0.6), (0.0, 0.0), (-0.2, 0.2), (-0.3, -0.1), (1e-30, 1e-30)])
def test_f1_and_its_gradient_are_never_nan(p: float, r: float) -> None:
    sides = [torch.tensor([x], requires_grad=True) for x in (p, r)]
    found = harmonic_mean(*sides)
    assert bool(torch.isfinite(found).all())
    assert all(bool(torch.isfinite(slope).all()) for slope in torch.autograd.grad(found.sum(), sides))


@given(st.floats(-2, 2), st.floats(1e-3, 2), st.floats(1e-3, 2))
def test_normalising_is_eq_1(c: float, own: float, other: float) -> None:
    found = normalise(*(torch.tensor([x], dtype=torch.float64) for x in (c, own, other)))
    assert float(found) == pytest.approx(oracle.normalised(c, own, other), rel=1e-12, abs=1e-12)


def test_a_row_that_cannot_be_normalised_leaves_the_others_alone() -> None:
    c, own, other = torch.tensor([0.3, 0.3, 0.3]), torch.tensor([0.5, 0.0, 0.5]), torch.tensor([0.5, 0.5, -1.0])
    assert normalise(c, own, other).tolist() == pytest.approx([0.6, 0.0, 0.0])


@pytest.mark.parametrize(("p", "r"), [(0.6, 0.4), (0.6, -0.4), (0.0, 0.4)])
def test_normalised_scores_are_the_raw_ones_over_one_scale(p: float, r: float) -> None:
    sides, selves = Sides(torch.tensor([p]), torch.tensor([r])), (torch.tensor([0.81]), torch.tensor([0.25]))
    scores = combine_sides(sides, selves)
    assert [float(x) for x in scores] == pytest.approx(
        [oracle.normalised(x, 0.81, 0.25) for x in (p, r, oracle.f1(p, r))], rel=1e-6
    )
    assert (scores.precision.item(), scores.recall.item()) == pytest.approx((p / 0.45, r / 0.45), rel=1e-6)


@pytest.mark.parametrize("multiref", Multiref)
def test_one_reference_is_its_own_best_and_mean(multiref: Multiref) -> None:
    assert over_references(np.array([0.2, -0.6, 0.5]), np.array([1, 1, 1]), multiref).tolist() == [0.2, -0.6, 0.5]


def test_ragged_references_by_hand() -> None:
    scores, counts = np.array([-0.4, -0.2, 0.9, 0.1, 0.2, 0.6]), np.array([2, 1, 3])
    assert over_references(scores, counts, Multiref.MAX).tolist() == [-0.2, 0.9, 0.6]
    assert over_references(scores, counts, Multiref.MEAN).tolist() == pytest.approx([-0.3, 0.9, 0.3])
