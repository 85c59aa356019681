from __future__ import annotations

import numpy as np
import pytest
import torch

from twmd_registry.carriers import TokenVectors, pad, span_indices
from twmd_registry.center import CENTERINGS, Means, center, sum_groups
from twmd_registry.registry.names import Centering, Vectors

LENGTHS = [3, 1, 5, 2]
GROUP = torch.tensor([0, 0, 1, 1])
WEIGHT = torch.tensor([1, 3, 1, 2])


@pytest.fixture
def tokens() -> TokenVectors:
    draw = np.random.default_rng(1)
    return TokenVectors(torch.tensor(draw.normal(size=(sum(LENGTHS), 4)) + 2, dtype=torch.float32), torch.tensor(LENGTHS))


def rows_of(tokens: TokenVectors) -> list[np.ndarray]:
    return [part.numpy() for part in torch.split(tokens.vectors, tokens.lengths.tolist())]


def expected(tokens: TokenVectors, centering: Centering) -> list[np.ndarray]:
    rows = rows_of(tokens)
    if centering is Centering.NONE:
        return rows
    if centering is Centering.DIMENSION:
        return [np.array([vector - vector.mean() for vector in row]) for row in rows]
    if centering is Centering.SENTENCE:
        return [row - row.mean(0) for row in rows]
    if centering is Centering.BACKGROUND:
        return [row - np.array([1.0, 2.0, 3.0, 4.0]) for row in rows]
    occurrences = [[row] * int(weight) for row, weight in zip(rows, WEIGHT, strict=True)]
    means = [np.concatenate(occurrences[2 * g] + occurrences[2 * g + 1]).mean(0) for g in (0, 1)]
    return [row - means[int(g)] for row, g in zip(rows, GROUP, strict=True)]


def means_for(tokens: TokenVectors, centering: Centering) -> Means | None:
    if centering is Centering.BACKGROUND:
        return Means(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.zeros(4, dtype=torch.int64))
    if centering in {Centering.BATCH, Centering.CORPUS}:
        return Means(sum_groups(tokens, GROUP, WEIGHT, 2).mean(), GROUP)
    return None


@pytest.mark.parametrize("centering", Centering)
def test_every_centering_is_its_definition(tokens: TokenVectors, centering: Centering) -> None:
    means = means_for(tokens, centering)
    raw = center(tokens, centering, Vectors.RAW, means)
    unit = center(tokens, centering, Vectors.UNIT, means)
    wanted = expected(tokens, centering)
    if centering is Centering.SENTENCE:
        wanted[1] = wanted[1][:0]
    np.testing.assert_allclose(raw.vectors, np.concatenate(wanted), atol=1e-6)
    np.testing.assert_allclose(unit.vectors, np.concatenate([row / np.linalg.norm(row, axis=1, keepdims=True) for row in wanted]), atol=1e-6)
    assert raw.lengths.tolist() == unit.lengths.tolist() == [len(row) for row in wanted]


def test_every_centering_has_a_function() -> None:
    assert set(CENTERINGS) == set(Centering)


def test_a_token_of_which_nothing_is_left_is_dropped(tokens: TokenVectors) -> None:
    counted = torch.ones(sum(LENGTHS), dtype=torch.bool)
    centered = center(tokens._replace(counted=counted), Centering.SENTENCE, Vectors.UNIT)
    assert centered.lengths.tolist() == [3, 0, 5, 2]
    assert centered.counted is not None
    assert len(centered.counted) == len(centered.vectors) == 10
    assert bool(torch.isfinite(centered.vectors).all())


@pytest.mark.parametrize("centering", [Centering.BATCH, Centering.CORPUS, Centering.BACKGROUND])
def test_a_centering_that_needs_means_says_so(tokens: TokenVectors, centering: Centering) -> None:
    with pytest.raises(ValueError, match="needs means"):
        center(tokens, centering, Vectors.UNIT)


def test_sums_add_up_piece_by_piece(tokens: TokenVectors) -> None:
    whole = sum_groups(tokens, GROUP, WEIGHT, 2)
    first = TokenVectors(tokens.vectors[:4], tokens.lengths[:2])
    second = TokenVectors(tokens.vectors[4:], tokens.lengths[2:])
    parts = sum_groups(first, GROUP[:2], WEIGHT[:2], 2).plus(sum_groups(second, GROUP[2:], WEIGHT[2:], 2))
    torch.testing.assert_close(parts.sums, whole.sums)
    assert whole.counts.tolist() == [3 + 3 * 1, 5 + 2 * 2]


def test_tokens_that_do_not_count_are_not_in_the_mean(tokens: TokenVectors) -> None:
    counted = torch.ones(sum(LENGTHS), dtype=torch.bool)
    counted[0] = False
    sums = sum_groups(tokens._replace(counted=counted), GROUP, torch.ones(4, dtype=torch.int64), 2)
    np.testing.assert_allclose(sums.mean()[0], tokens.vectors[1:4].mean(0), atol=1e-6)


def test_a_group_without_tokens_has_mean_zero(tokens: TokenVectors) -> None:
    assert sum_groups(tokens, GROUP, WEIGHT, 3).mean()[2].tolist() == [0.0] * 4


def test_padding_puts_an_items_tokens_first(tokens: TokenVectors) -> None:
    block = pad(tokens, torch.tensor([2, 1]))
    assert block.mask.tolist() == [[True] * 5, [True] + [False] * 4]
    torch.testing.assert_close(block.vectors[0], tokens.vectors[4:9])
    torch.testing.assert_close(block.vectors[1, 0], tokens.vectors[3])


def test_spans_may_be_empty_and_in_any_order() -> None:
    assert span_indices(torch.tensor([4, 9, 0]), torch.tensor([2, 0, 1])).tolist() == [4, 5, 0]
