"""Errors in token vectors that whole scores would not reveal: single numbers, means, and dropped tokens.

tests/engine/test_whole_scores.py compares every aggregation, mean and n-gram with its formula.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.oracles import movers
from twmd_registry.engine.aggregation import aggregate
from twmd_registry.engine.token_vectors import center
from twmd_registry.registry.names import CENTERINGS, CenteringKind, Vectors
from twmd_registry.registry.values import Aggregation
from twmd_registry.tensors import TokenVectors

LENGTHS = [3, 1, 5, 2]


def layers(tokens: int, depth: int, width: int = 6, seed: int = 0, spread: float = 1.0) -> Tensor:
    """Unit vectors; with a small `spread` a token's layers lie close together."""
    draw = np.random.default_rng(seed)
    found = draw.normal(size=(tokens, 1, width)) + spread * draw.normal(size=(tokens, depth, width))
    return torch.tensor(found / np.linalg.norm(found, axis=2, keepdims=True))


@pytest.mark.parametrize("power", ["3", "99"])
def test_high_power_of_small_numbers_is_not_lost_in_float32(power: str) -> None:
    z = layers(3, 4, width=384, seed=6)
    found = aggregate(z.to(torch.float32), Aggregation.parse(f"pmeans:{power}"))
    np.testing.assert_allclose(found, [movers.power_mean(token, power) for token in z.numpy()], atol=1e-5)


@pytest.fixture
def tokens() -> TokenVectors:
    draw = np.random.default_rng(1)
    return TokenVectors(
        torch.tensor(draw.normal(size=(sum(LENGTHS), 4)) + 2, dtype=torch.float32), torch.tensor(LENGTHS)
    )


def centered_alone(
    tokens: TokenVectors, centering: CenteringKind, vectors: Vectors, means: torch.Tensor | None = None
) -> TokenVectors:
    return center([tokens], centering, vectors, None if means is None else [means])[0]


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_tokens_are_dropped_by_relative_not_absolute_size(size: float) -> None:
    mean = torch.tensor([[3.0, -4.0, 12.0]]) * size
    vectors = torch.cat([mean, mean * (1 + 1e-7), mean * (1 + 1e-5), mean * 2])
    means = mean.expand(2, -1)
    centered = centered_alone(TokenVectors(vectors, torch.tensor([2, 2])), "background", "raw", means)
    assert centered.lengths.tolist() == [0, 2]
    np.testing.assert_allclose(centered.vectors[1], mean[0], rtol=1e-6)


@pytest.mark.parametrize("centering", CENTERINGS)
def test_zero_vector_has_no_direction(tokens: TokenVectors, centering: CenteringKind) -> None:
    vectors = tokens.vectors.clone()
    vectors[3] = 0.0
    fitted = {"batch", "corpus", "background"}
    means = torch.zeros(4, 4) if centering in fitted else None
    centered = centered_alone(tokens._replace(vectors=vectors), centering, "unit", means)
    assert centered.lengths.tolist() == [3, 0, 5, 2]
    assert bool(torch.isfinite(centered.vectors).all())


def test_dropping_tokens_keeps_the_flags_of_the_others(tokens: TokenVectors) -> None:
    counted = torch.tensor([True, False, True, True, False, True, True, True, True, True, True])
    centered = centered_alone(tokens._replace(counted=counted), "sentence", "unit")
    assert centered.counted is not None
    assert centered.counted.tolist() == [*counted[:3].tolist(), *counted[4:].tolist()]
    own = torch.split(centered.counted, centered.lengths.tolist())
    assert [int(flags.sum()) for flags in own] == [2, 0, 4, 2]
