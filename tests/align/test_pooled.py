"""``sbert``: mean pooling."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

from tests.align.problems import QUICK, Drawn, pairs, problem, ragged, seeds
from tests.oracles import family as oracle
from twmd_registry.align import similarities
from twmd_registry.align.pooled import pooled
from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.engine.reduction import normalise
from twmd_registry.tensors import PaddedTokens


@QUICK
@given(pairs)
def test_it_is_the_mean_of_all_similarities(p: Drawn) -> None:
    assert float(pooled(*p, AlignmentSettings())) == pytest.approx(oracle.pooled(p.array), abs=1e-12)


@QUICK
@given(ragged, seeds)
def test_it_is_the_inner_product_of_the_mean_vectors_and_normalised_their_cosine(
    sizes: list[tuple[int, int]], seed: int
) -> None:
    p = problem(sizes, seed, garbage=1e3)
    c = pooled(similarities(p.x, p.y), PaddedTokens(p.x.mask), PaddedTokens(p.y.mask), AlignmentSettings())
    selves = [
        pooled(similarities(side, side), PaddedTokens(side.mask), PaddedTokens(side.mask), AlignmentSettings())
        for side in (p.x, p.y)
    ]
    scores = normalise(c, *selves)
    for b, (n, m) in enumerate(sizes):
        x, y = p.x.vectors[b, :n].numpy().mean(0), p.y.vectors[b, :m].numpy().mean(0)
        assert float(c[b]) == pytest.approx(x @ y, abs=1e-12)
        assert float(scores[b]) == pytest.approx(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)), abs=1e-12)


def test_every_pair_of_tokens_weighs_the_same_and_padding_nothing() -> None:
    s = torch.full((1, 3, 4), 5.0, dtype=torch.float64, requires_grad=True)
    hyp, ref = torch.tensor([[True, True, False]]), torch.tensor([[True, True, True, False]])
    (weights,) = torch.autograd.grad(pooled(s, PaddedTokens(hyp), PaddedTokens(ref), AlignmentSettings()).sum(), s)
    wanted = np.zeros((3, 4))
    wanted[:2, :3] = 1 / 6
    np.testing.assert_allclose(weights[0], wanted, atol=1e-15)
