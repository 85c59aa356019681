"""``sbert``: mean pooling."""

from __future__ import annotations

from torch import Tensor

from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.tensors import PaddedTokens


def pooled(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Average all similarities: ``C = mean_ij S_ij``, the inner product of the two (weighted) mean vectors.

    After Eq. 1 this is the cosine of the mean vectors (TWMD paper, section 3, "Sentence-BERT").
    """
    rows = (s * ref.weights[:, None, :]).sum(2) / ref.weights.sum(1, keepdim=True)  # (B, N)
    return hyp.mean(rows)


def pooled_plan(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Return the product of the marginals, ``pi_ij = a_i b_j``; shape (B, N, M)."""
    return hyp.shares[:, :, None] * ref.shares[:, None, :]
