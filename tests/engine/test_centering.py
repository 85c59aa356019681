"""Means of groups against the oracle, and what becomes of tokens of which centering leaves nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

from tests.align.problems import QUICK, ragged, seeds
from tests.oracles import family as oracle
from twmd_registry.engine.token_vectors import center, means_of_groups, sum_groups
from twmd_registry.registry.names import CENTERINGS, Centering, Vectors
from twmd_registry.tensors import TokenVectors

LENGTHS = [3, 1, 5, 2]
GROUP = torch.tensor([0, 0, 1, 1])


@pytest.fixture
def tokens() -> TokenVectors:
    draw = np.random.default_rng(1)
    return TokenVectors(
        torch.tensor(draw.normal(size=(sum(LENGTHS), 4)) + 2, dtype=torch.float32), torch.tensor(LENGTHS)
    )


def centered_alone(
    tokens: TokenVectors, centering: Centering, vectors: Vectors, means: torch.Tensor | None = None
) -> TokenVectors:
    return center([tokens], centering, vectors, None if means is None else [means])[0]


def test_tokens_that_do_not_count_are_not_in_the_mean(tokens: TokenVectors) -> None:
    counted = torch.ones(sum(LENGTHS), dtype=torch.bool)
    counted[0] = False
    sums = sum_groups(tokens._replace(counted=counted), GROUP, torch.ones(4, dtype=torch.int64), 2)
    np.testing.assert_allclose(means_of_groups(sums)[0], tokens.vectors[1:4].mean(0), atol=1e-6)


@QUICK
@given(ragged, seeds)
def test_group_means_are_the_oracles_for_any_groups_and_occurrences(sizes: list[tuple[int, int]], seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows = [draw.normal(size=(n, 5)) + 3 for n, _ in sizes]
    group, weight = [int(g) for g in draw.integers(0, 3, len(rows))], [int(w) for w in draw.integers(1, 4, len(rows))]
    tokens = TokenVectors(torch.tensor(np.concatenate(rows)), torch.tensor([len(row) for row in rows]))
    found = means_of_groups(sum_groups(tokens, torch.tensor(group), torch.tensor(weight), 3))
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, oracle.group_means(rows, group, weight, 3), rtol=1e-6)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_whether_a_token_is_dropped_depends_on_its_share_and_not_on_its_size(size: float) -> None:
    mean = torch.tensor([[3.0, -4.0, 12.0]]) * size
    vectors = torch.cat([mean, mean * (1 + 1e-7), mean * (1 + 1e-5), mean * 2])
    means = mean.expand(2, -1)
    centered = centered_alone(TokenVectors(vectors, torch.tensor([2, 2])), "background", "raw", means)
    assert centered.lengths.tolist() == [0, 2]
    np.testing.assert_allclose(centered.vectors[1], mean[0], rtol=1e-6)


def test_word_repeated_is_nothing_but_its_mean() -> None:
    vectors = torch.tensor([[0.1, 0.7, -0.3]]).repeat(7, 1)
    assert centered_alone(TokenVectors(vectors, torch.tensor([3, 4])), "sentence", "unit").lengths.tolist() == [
        0,
        0,
    ]


@pytest.mark.parametrize("centering", CENTERINGS)
def test_zero_vector_has_no_direction(tokens: TokenVectors, centering: Centering) -> None:
    vectors = tokens.vectors.clone()
    vectors[3] = 0.0
    fitted = {"batch", "corpus", "background"}
    means = torch.zeros(4, 4) if centering in fitted else None
    centered = centered_alone(tokens._replace(vectors=vectors), centering, "unit", means)
    assert centered.lengths.tolist() == [3, 0, 5, 2]
    assert bool(torch.isfinite(centered.vectors).all())


def test_dropping_keeps_which_of_the_other_tokens_count(tokens: TokenVectors) -> None:
    counted = torch.tensor([True, False, True, True, False, True, True, True, True, True, True])
    centered = centered_alone(tokens._replace(counted=counted), "sentence", "unit")
    assert centered.counted is not None
    assert centered.counted.tolist() == [*counted[:3].tolist(), *counted[4:].tolist()]
    assert centered.count_true(centered.counted).tolist() == [2, 0, 4, 2]


def test_centering_and_scaling_can_be_trained_through(tokens: TokenVectors) -> None:
    vectors = tokens.vectors.double().requires_grad_()

    def centered(x: torch.Tensor) -> torch.Tensor:
        return centered_alone(TokenVectors(x, tokens.lengths), "dimension", "unit").vectors

    assert torch.autograd.gradcheck(centered, (vectors,))
