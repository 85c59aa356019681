"""From C(X, Y) to scores: F1, Eq. 1, several references."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.oracles import family as oracle
from twmd_registry.align import combine_sides
from twmd_registry.engine.pairs import Segments, make_pairs

numbers = st.floats(-2, 2, allow_subnormal=False)


def one(first: float, second: float) -> tuple[Tensor, Tensor]:
    """Return both sides, or C of both texts, of one pair."""
    return torch.tensor([first], dtype=torch.float64), torch.tensor([second], dtype=torch.float64)


@given(numbers, numbers)
def test_harmonic_mean_is_defined_everywhere(p: float, r: float) -> None:
    found = float(combine_sides(one(p, r))[2])
    assert found == pytest.approx(oracle.f1(p, r), abs=1e-12)
    assert min(p, r) - 1e-12 <= found <= max(p, r) + 1e-12


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


@given(st.lists(st.lists(st.floats(-1, 1), min_size=1, max_size=4), min_size=1, max_size=6))
def test_references_are_reduced_segment_by_segment(segments: list[list[float]]) -> None:
    flat = np.concatenate([np.array(s) for s in segments])
    pairs = make_pairs(Segments(["a"] * len(segments), [["b"] * len(s) for s in segments]))
    assert pairs.over_references(flat, "max").tolist() == [max(s) for s in segments]
    assert pairs.over_references(flat, "mean").tolist() == pytest.approx([sum(s) / len(s) for s in segments])


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


@given(st.floats(-2, 2), st.floats(1e-3, 2), st.floats(1e-3, 2))
def test_normalising_is_eq_1(c: float, own: float, other: float) -> None:
    found = combine_sides(one(c, c), one(own, other))[0]
    assert float(found) == pytest.approx(oracle.normalised(c, own, other), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("p", "r"), [(0.6, 0.4), (0.6, -0.4), (0.0, 0.4)])
def test_normalised_scores_are_the_raw_ones_over_one_scale(p: float, r: float) -> None:
    sides, selves = (torch.tensor([p]), torch.tensor([r])), (torch.tensor([0.81]), torch.tensor([0.25]))
    scores = combine_sides(sides, selves)
    assert [float(x) for x in scores] == pytest.approx(
        [oracle.normalised(x, 0.81, 0.25) for x in (p, r, oracle.f1(p, r))], rel=1e-6
    )
    assert (scores[0].item(), scores[1].item()) == pytest.approx((p / 0.45, r / 0.45), rel=1e-6)
