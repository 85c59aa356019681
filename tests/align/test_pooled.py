"""``sbert``: mean pooling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from tests.align.problems import QUICK, problem, ragged, seeds
from twmd_registry.align import normalise, similarities
from twmd_registry.align.pooled import pooled
from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.tensors import PaddedTokens


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
