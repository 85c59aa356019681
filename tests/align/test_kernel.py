"""``wordset_cka``: linear kernel alignment."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

from tests.align.problems import QUICK, matrix, problem, ragged, seeds
from twmd_registry.align import similarities
from twmd_registry.align.kernel import kernel
from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.tensors import PaddedTokens


@QUICK
@given(ragged, seeds)
def test_it_is_the_inner_product_of_the_texts_second_moments(sizes: list[tuple[int, int]], seed: int) -> None:
    p = problem(sizes, seed, garbage=1e3)
    found = kernel(similarities(p.x, p.y), PaddedTokens(p.x.mask), PaddedTokens(p.y.mask), AlignmentSettings())
    for b, (n, m) in enumerate(sizes):
        x, y = p.x.vectors[b, :n].numpy(), p.y.vectors[b, :m].numpy()
        assert float(found[b]) == pytest.approx(float(((x.T @ x) * (y.T @ y)).sum()), abs=1e-10)


def test_opposite_tokens_count_like_equal_ones() -> None:
    assert float(kernel(*matrix([[-0.5, 0.1], [0.2, -1.0]]), AlignmentSettings())) == pytest.approx(
        0.25 + 0.01 + 0.04 + 1.0
    )


def test_gradient_is_twice_the_similarity_and_nothing_in_padding() -> None:
    s = torch.tensor([[[0.3, -0.4, 1e3], [0.1, 0.9, 1e3]]], dtype=torch.float64, requires_grad=True)
    hyp, ref = torch.tensor([[True, True]]), torch.tensor([[True, True, False]])
    (slope,) = torch.autograd.grad(kernel(s, PaddedTokens(hyp), PaddedTokens(ref), AlignmentSettings()).sum(), s)
    np.testing.assert_allclose(slope[0], [[0.6, -0.8, 0.0], [0.2, 1.8, 0.0]], atol=1e-15)
