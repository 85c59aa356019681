"""Sums over a corpus, part by part: ``centering=corpus``, ``idf=corpus``, ``idf=references`` need them to score."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from twmd_registry.engine.pipeline import AllReduce
from twmd_registry.registry.names import Centering, Idf
from twmd_registry.registry.spec import MetricSpec


class CorpusTotals(NamedTuple):
    """Sums over some parts.

    Attributes:
        tensors: The sums in the order in which scoring asks for them; none for no rows.
        parts: How many parts, from the first, were added.
    """

    tensors: list[np.ndarray]
    parts: int = 0

    def plus(self, other: CorpusTotals) -> CorpusTotals:
        """Add both; sums of floating-point numbers depend on the order, which is that of the parts."""
        if not (self.tensors and other.tensors):
            return CorpusTotals(self.tensors or other.tensors, self.parts + other.parts)
        sums = [own + more for own, more in zip(self.tensors, other.tensors, strict=True)]
        return CorpusTotals(sums, self.parts + other.parts)

    def to_bytes(self) -> bytes:
        """Write them as safetensors."""
        from safetensors.numpy import save

        tensors = {str(i): np.ascontiguousarray(tensor) for i, tensor in enumerate(self.tensors)}
        return save(tensors | {"parts": np.array([self.parts])})

    @classmethod
    def from_bytes(cls, content: bytes) -> CorpusTotals:
        """Read them."""
        from safetensors.numpy import load

        tensors = load(content)
        parts = int(tensors.pop("parts")[0])
        return cls([tensors[str(i)] for i in range(len(tensors))], parts)


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


def replay(known: Iterable[np.ndarray]) -> AllReduce:
    """Return a total that was added up before: no text is looked at again."""
    rest = iter(known)
    return lambda _mine: torch.from_numpy(next(rest))
