"""Centering: subtract a mean from token vectors before their norms are taken.

Centering happens after a layer has been chosen and before L2 normalisation (TWMD paper, section 5). ``batch`` and
``corpus`` are one operation with different groups: the mean of a group of texts is subtracted from each of its tokens.
A group's mean weighs every token once per occurrence of its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from twmd_registry.registry.names import Centering, Vectors
from twmd_registry.tensors import EPSILON, ZERO_TOLERANCE, TokenVectors


class GroupSums(NamedTuple):
    """Sums per group, from which means follow; a corpus is summed chunk by chunk.

    Attributes:
        sums: Shape (G, D), float64.
        counts: Tokens in each group; shape (G,), float64.
    """

    sums: Tensor
    counts: Tensor

    def mean(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the means in a dtype; shape (G, D); zero for a group without tokens."""
        return (self.sums / self.counts.clamp(min=1)[:, None]).to(dtype)

    @classmethod
    def nothing(cls, groups: int, width: int, device: torch.device) -> GroupSums:
        """Return the sums of groups without tokens; D = `width`."""
        sums = torch.zeros(groups, width, dtype=torch.float64, device=device)
        return cls(sums, sums[:, 0].clone())

    def plus(self, other: GroupSums) -> GroupSums:
        """Return the sums of both."""
        return GroupSums(self.sums + other.sums, self.counts + other.counts)


def sum_groups(tokens: TokenVectors, group: Tensor, weight: Tensor, groups: int) -> GroupSums:
    """Sum the token vectors that count, per group.

    Args:
        tokens: I items.
        group: The group of every item; shape (I,).
        weight: Occurrences of each item in its group; shape (I,).
        groups: Number of groups, G.
    """
    shape = (len(tokens.lengths), tokens.vectors.shape[1])
    vectors = (
        tokens.vectors if tokens.counted is None else torch.where(tokens.counted[:, None], tokens.vectors, 0.0)
    )  # (T, D)
    texts = vectors.new_zeros(shape).index_add(0, tokens.owners, vectors).to(torch.float64)  # (I, D)
    weight = weight.to(torch.float64)
    sums = texts.new_zeros(groups, shape[1]).index_add(0, group, texts * weight[:, None])  # (G, D)
    counts = texts.new_zeros(groups).index_add(0, group, tokens.counted_lengths * weight)
    return GroupSums(sums, counts)


def _subtract_mean(tokens: TokenVectors, centering: Centering, means: Tensor | None) -> Tensor:
    """Return the centered vectors of one layer, shape (T, D); `means` as for `center`."""
    if centering is Centering.NONE:
        return tokens.vectors
    if centering is Centering.DIMENSION:
        return tokens.vectors - tokens.vectors.mean(dim=1, keepdim=True)
    if centering is Centering.SENTENCE:
        every = torch.arange(len(tokens.lengths), device=tokens.lengths.device)
        means = sum_groups(tokens, every, torch.ones_like(tokens.lengths), len(every)).mean(tokens.vectors.dtype)
    if means is None:  # batch, corpus and background take the means that they are given
        raise ValueError("this centering needs means: sum_groups(...) or a background vector.")
    return tokens.vectors - means.index_select(0, tokens.owners)


def center(
    layers: Sequence[TokenVectors], centering: Centering, vectors: Vectors, means: Sequence[Tensor] | None = None
) -> list[TokenVectors]:
    """Center token vectors and scale them to length one, layer by layer.

    A token of which centering leaves nothing but rounding errors (`ZERO_TOLERANCE`) has no direction; it is dropped in
    every layer, so an item may end up with no token at all (a one-word text under ``sentence`` centering does).

    Args:
        layers: The same I items in every layer.
        centering: The kind of mean to subtract.
        vectors: Whether to scale to length one (``unit``) or not (``raw``).
        means: By layer, the mean of every item, for ``batch``, ``corpus`` and ``background``; each of shape (I, D).

    Returns:
        The same items, possibly with fewer tokens, with the rounding errors of what is left.

    Raises:
        ValueError: A centering that needs means came without.
    """
    centered = [_subtract_mean(tokens, centering, means[k] if means else None) for k, tokens in enumerate(layers)]
    norms = [torch.linalg.vector_norm(vectors_of_layer, dim=1) for vectors_of_layer in centered]  # each (T,)
    # The rounding error of a difference is proportional to the longer of the vector and the difference.
    errors = [
        EPSILON * torch.maximum(torch.linalg.vector_norm(tokens.vectors.detach(), dim=1), own.detach())
        for tokens, own in zip(layers, norms, strict=True)
    ]
    keep = ~torch.stack([own <= ZERO_TOLERANCE * error for own, error in zip(norms, errors, strict=True)]).any(
        0
    )  # (T,); NaN is no absence
    whole = bool(keep.all())
    found = []
    for tokens, one, own, error in zip(layers, centered, norms, errors, strict=True):
        # A dropped token is divided by 1: a division by 0 would give NaN, here or in the gradients.
        length = torch.ones_like(own) if vectors is Vectors.RAW else torch.where(keep, own, 1.0)
        scaled = tokens._replace(vectors=one / length[:, None], rounding=error / length.detach())
        found.append(scaled if whole else scaled.select(keep))
    return found
