"""N-grams against a slow loop over windows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.align.problems import QUICK, seeds
from tests.oracles import movers
from twmd_registry.engine.token_vectors import form_ngrams, unit
from twmd_registry.tensors import EPSILON, TokenVectors

LONG = 10_000
"""More tokens than any text has."""


def texts(lengths: list[int], seed: int = 0, *, weighted: bool = True, zeros: bool = False) -> TokenVectors:
    rng = np.random.default_rng(seed)
    vectors, weights = rng.normal(size=(sum(lengths), 3)), rng.uniform(0.1, 3, sum(lengths))
    if zeros:
        weights[rng.random(len(weights)) < 0.6] = 0
    return centered(torch.tensor(vectors), lengths, torch.tensor(weights) if weighted else None)


def centered(vectors: torch.Tensor, lengths: list[int], weights: torch.Tensor | None) -> TokenVectors:
    """Return tokens with the rounding errors of their vectors, as `center` does."""
    rounding = EPSILON * torch.linalg.vector_norm(vectors, dim=1)
    return TokenVectors(vectors, torch.tensor(lengths), weights=weights, rounding=rounding)


def parts(tokens: TokenVectors) -> list[tuple[np.ndarray, list[float] | None]]:
    """Return every text's vectors and weights."""
    found = []
    for end, length in zip(tokens.lengths.cumsum(0).tolist(), tokens.lengths.tolist(), strict=True):
        span = slice(end - length, end)
        found.append((tokens.vectors[span].numpy(), None if tokens.weights is None else tokens.weights[span].tolist()))
    return found


def assert_windows(tokens: TokenVectors, n: int | str) -> None:
    found = form_ngrams(tokens, n)
    assert (found.weights is None) is (tokens.weights is None)
    for windows, (vectors, weights) in zip(parts(found), parts(tokens), strict=True):
        wanted, totals = movers.ngrams(vectors, weights, LONG if n == "sentence" else int(n))
        np.testing.assert_allclose(windows[0], wanted, atol=1e-12)
        assert windows[1] is None or windows[1] == pytest.approx(totals, abs=1e-12)


@QUICK
@given(
    lengths=st.lists(st.integers(0, 7), min_size=1, max_size=6),
    n=st.sampled_from([1, 2, 3, 8, "sentence"]),
    seed=seeds,
    weighted=st.booleans(),
    zeros=st.booleans(),
)
def test_every_window_is_the_weighted_mean_of_its_tokens(
    lengths: list[int], n: int | str, seed: int, weighted: bool, zeros: bool
) -> None:
    assert_windows(texts(lengths, seed, weighted=weighted, zeros=zeros), n)


def test_window_with_zero_weights_has_the_unweighted_mean_and_zero_weight() -> None:
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    found = form_ngrams(centered(vectors, [3], torch.tensor([0.0, 0.0, 2.0])), 2)
    assert found.weights is not None
    assert found.weights.tolist() == [0.0, 2.0]
    assert found.vectors.tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_window_place_is_the_position_of_its_first_token() -> None:
    positions = form_ngrams(texts([3, 0, 2], weighted=False), 2).positions
    assert positions is not None
    assert positions.tolist() == [0, 1, 3]


def test_windows_are_scaled_to_unit_length_and_zero_windows_are_dropped() -> None:
    vectors = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    found = unit(form_ngrams(centered(vectors, [3], torch.ones(3)), 2))
    assert found.lengths.tolist() == [1]
    np.testing.assert_allclose(found.vectors, [[-1 / 5**0.5, 2 / 5**0.5]], atol=1e-7)
