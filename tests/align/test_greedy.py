"""``bertscore_centered``: greedy matching."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.align.problems import matrix
from twmd_registry.align.greedy import greedy
from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.tensors import PaddedTokens


def test_it_averages_over_the_hypothesis_and_chooses_from_the_reference() -> None:
    assert float(greedy(*matrix([[0.1, 0.8, 0.3], [0.2, 0.4, -0.5]]), AlignmentSettings())) == pytest.approx(
        (0.8 + 0.4) / 2
    )


def test_only_the_best_partner_gets_a_gradient() -> None:
    two = torch.tensor([[True, True, False]])
    s = torch.tensor([[[0.1, 0.8, 0.9], [0.5, 0.4, 0.9], [0.9, 0.9, 0.9]]], dtype=torch.float64, requires_grad=True)
    (weights,) = torch.autograd.grad(greedy(s, PaddedTokens(two), PaddedTokens(two), AlignmentSettings()).sum(), s)
    np.testing.assert_array_equal(weights[0], [[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]])
