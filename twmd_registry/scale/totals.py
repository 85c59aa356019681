"""Sums over a whole corpus (``centering=corpus``, ``idf=corpus``, ``idf=references``), part by part before the scoring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from twmd_registry.engine.pipeline import AllReduce
from twmd_registry.registry.names import Centering, Idf
from twmd_registry.registry.spec import MetricSpec


class CorpusTotals(NamedTuple):
    """Sums over some parts: for every group of scorers that share a model, tensors in the order of their use.

    Attributes:
        groups: Per group its tensors; no group at all for no rows.
        parts: How many parts, from the first, were added.
    """

    groups: list[list[np.ndarray]]
    parts: int = 0

    def plus(self, other: CorpusTotals) -> CorpusTotals:
        """Add both; sums of floating-point numbers depend on the order, which is that of the parts."""
        if not (self.groups and other.groups):
            return CorpusTotals(self.groups or other.groups, self.parts + other.parts)
        groups = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(self.groups, other.groups, strict=True)]
        return CorpusTotals(groups, self.parts + other.parts)

    def to_bytes(self) -> bytes:
        """Write them as safetensors."""
        from safetensors.numpy import save

        tensors = {f"{g}.{i}": np.ascontiguousarray(one) for g, group in enumerate(self.groups) for i, one in enumerate(group)}
        sizes = np.array([len(group) for group in self.groups], dtype=np.int64)
        return save(tensors | {"parts": np.array([self.parts]), "groups": sizes})

    @classmethod
    def from_bytes(cls, content: bytes) -> CorpusTotals:
        """Read them."""
        from safetensors.numpy import load

        tensors = load(content)
        groups = [[tensors[f"{g}.{i}"] for i in range(size)] for g, size in enumerate(tensors["groups"].tolist())]
        return cls(groups, int(tensors["parts"][0]))


def depend_on_corpus(specs: Iterable[MetricSpec]) -> bool:
    """Check whether a score by one of these depends on every row."""
    return any(spec.centering_kind is Centering.CORPUS or spec.idf in {Idf.CORPUS, Idf.REFERENCES} for spec in specs)


def collect(into: list[np.ndarray]) -> AllReduce:
    """Return a total that keeps the sums of this part."""

    def total(mine: Callable[[], Tensor]) -> Tensor:
        local = mine()
        into.append(local.cpu().numpy())
        return local

    return total


def replay(known: Sequence[np.ndarray]) -> AllReduce:
    """Return a total that was added up before: no text is looked at again."""
    rest: Iterator[np.ndarray] = iter(known)
    return lambda _mine: torch.from_numpy(next(rest))
