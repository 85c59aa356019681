"""``bertscore_centered``: greedy matching."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

from tests.align.problems import QUICK, Drawn, matrix, pairs
from tests.oracles import family as oracle
from twmd_registry.align.greedy import greedy
from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.tensors import PaddedTokens


@QUICK
@given(pairs)
def test_it_is_the_mean_of_every_tokens_best(p: Drawn) -> None:
    assert float(greedy(*p, AlignmentSettings())) == pytest.approx(oracle.greedy(p.array), abs=1e-12)
    assert float(greedy(p.s.mT, p.ref, p.hyp, AlignmentSettings())) == pytest.approx(
        oracle.greedy(p.array.T), abs=1e-12
    )


def test_it_averages_over_the_hypothesis_and_chooses_from_the_reference() -> None:
    assert float(greedy(*matrix([[0.1, 0.8, 0.3], [0.2, 0.4, -0.5]]), AlignmentSettings())) == pytest.approx(
        (0.8 + 0.4) / 2
    )


def test_padding_is_not_a_partner_of_similarity_zero() -> None:
    two = torch.tensor([[True, True, False]])
    s = torch.tensor([[[-0.3, -0.6, 0.0], [-0.9, -0.2, 0.0], [0.0, 0.0, 0.0]]])
    found = greedy(s, PaddedTokens(two), PaddedTokens(two), AlignmentSettings())
    assert float(found) == pytest.approx((-0.3 - 0.2) / 2)


@QUICK
@given(pairs)
def test_one_more_reference_token_never_makes_it_worse(p: Drawn) -> None:
    only_first = p.ref.mask.clone()
    only_first[0, 1:] = False
    fewer = PaddedTokens(only_first)
    assert float(greedy(p.s, p.hyp, fewer, AlignmentSettings())) == pytest.approx(float(p.s[0, :, 0].mean()), abs=1e-12)
    assert float(greedy(*p, AlignmentSettings())) >= float(greedy(p.s, p.hyp, fewer, AlignmentSettings()))


def test_only_the_best_partner_gets_a_gradient() -> None:
    two = torch.tensor([[True, True, False]])
    s = torch.tensor([[[0.1, 0.8, 0.9], [0.5, 0.4, 0.9], [0.9, 0.9, 0.9]]], dtype=torch.float64, requires_grad=True)
    (weights,) = torch.autograd.grad(greedy(s, PaddedTokens(two), PaddedTokens(two), AlignmentSettings()).sum(), s)
    np.testing.assert_array_equal(weights[0], [[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]])
