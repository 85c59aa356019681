"""N-grams: windows of neighbouring tokens that are moved as one unit (MoverScore paper, section 3.1)."""

from __future__ import annotations

import torch

from twmd_registry.registry.names import SENTENCE
from twmd_registry.tensors import NOTHING, TokenVectors, span_indices


def form_ngrams(tokens: TokenVectors, n: int | str) -> TokenVectors:
    """Replace tokens by all windows of n neighbours, with stride 1.

    A window's vector is the weighted mean of its tokens' vectors, its weight the sum of their weights (Eq. 3). A text
    of fewer tokens is one window, and so is every text where n is ``sentence``. A window whose tokens weigh nothing
    weighs nothing, and has their plain mean.

    Args:
        tokens: I items.
        n: Tokens of a window, or ``sentence``.
    """
    width = tokens.lengths if n == SENTENCE else tokens.lengths.clamp(max=int(n))  # (I,)
    windows = torch.where(tokens.lengths > 0, tokens.lengths - width + 1, 0)  # (I,)
    first = span_indices(tokens.starts, windows)  # (W,)
    widths = torch.repeat_interleave(width, windows)  # (W,)
    carried = tokens.carried
    weigh = torch.ones_like(tokens.vectors[:, 0]) if carried is None else carried
    weighted, plain = (tokens.vectors.new_zeros(len(first), tokens.vectors.shape[1]) for _ in range(2))
    rounding = tokens.rounding_errors
    weights, errors = weigh.new_zeros(len(first)), rounding.new_zeros(len(first))
    for k in range(int(widths.max()) if len(widths) else 0):
        wide = torch.nonzero(widths > k).squeeze(1)
        token = first[wide] + k
        weights.index_add_(0, wide, weigh[token])
        weighted.index_add_(0, wide, weigh[token, None] * tokens.vectors[token])
        plain.index_add_(0, wide, tokens.vectors[token])
        errors[wide] = torch.maximum(errors[wide], rounding[token])  # no mean's error is larger, whatever the weights
    heavy = weights > 0
    vectors = torch.where(heavy[:, None], weighted / torch.where(heavy, weights, 1.0)[:, None], plain / widths[:, None])
    return TokenVectors(vectors, windows, None, None if carried is None else weights, first, errors)


def unit(tokens: TokenVectors) -> TokenVectors:
    """Scale vectors to length one; drop a vector that is only rounding error."""
    norms = torch.linalg.vector_norm(tokens.vectors, dim=1, keepdim=True)
    keep = ~(norms.squeeze(1) <= NOTHING * tokens.rounding_errors)  # NaN is no absence
    scaled = tokens._replace(
        vectors=tokens.vectors / torch.where(keep[:, None], norms, 1.0)
    )  # divided by nothing, gradients would be NaN
    return scaled if bool(keep.all()) else scaled.select(keep)
