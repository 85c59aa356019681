"""What depends on a whole corpus (``centering=corpus``, ``idf=corpus``, ``idf=references``), added up part by part before anything is scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from twmd_registry.engine.pipeline import AllReduce
from twmd_registry.registry.names import Centering, Idf
from twmd_registry.registry.spec import MetricSpec

WHOLE = {Idf.CORPUS, Idf.REFERENCES}


class CorpusTotals(NamedTuple):
    """Sums over some parts: for every group of scorers that share a model, tensors in the order in which scoring asks for them.

    Attributes:
        groups: Per group its tensors; no group at all for no rows.
        parts: How many parts, from the first, were added.
    """

    groups: list[list[np.ndarray]]
    parts: int = 0

    def plus(self, other: CorpusTotals) -> CorpusTotals:
        """The sums of both; of floating-point numbers they depend on the order, which is that of the parts."""
        if not (self.groups and other.groups):
            return CorpusTotals(self.groups or other.groups, self.parts + other.parts)
        groups = [[one + two for one, two in zip(*pair, strict=True)] for pair in zip(self.groups, other.groups, strict=True)]
        return CorpusTotals(groups, self.parts + other.parts)

    def to_bytes(self) -> bytes:
        """As safetensors."""
        from safetensors.numpy import save

        tensors = {f"{g}.{call}": np.ascontiguousarray(array) for g, group in enumerate(self.groups) for call, array in enumerate(group)}
        return save(tensors | {"parts": np.array([self.parts]), "groups": np.array([len(group) for group in self.groups], dtype=np.int64)})

    @classmethod
    def from_bytes(cls, content: bytes) -> CorpusTotals:
        """Read them back."""
        from safetensors.numpy import load

        tensors = load(content)
        sizes = tensors["groups"].tolist()
        return cls([[tensors[f"{g}.{call}"] for call in range(size)] for g, size in enumerate(sizes)], int(tensors["parts"][0]))


def depend_on_corpus(specs: Iterable[MetricSpec]) -> bool:
    """Whether a score by one of these depends on every row."""
    return any(spec.centering_kind is Centering.CORPUS or spec.idf in WHOLE for spec in specs)


def collect(into: list[np.ndarray]) -> AllReduce:
    """A total that remembers what it is given."""

    def total(mine: Callable[[], Tensor]) -> Tensor:
        found = mine()
        into.append(found.cpu().numpy())
        return found

    return total


def replay(known: Sequence[np.ndarray]) -> AllReduce:
    """A total that was added up before: nothing is looked at again."""
    rest: Iterator[np.ndarray] = iter(known)
    return lambda _mine: torch.from_numpy(next(rest))
