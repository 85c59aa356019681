"""Which segments make a training step: drawn anew in every epoch, the same ones for one seed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import BatchSampler

from twmd_registry.train.data import TrainingExample, check_groups
from twmd_registry.train.recipe import Loss, Recipe


class Batches(BatchSampler):
    """Batches of like size, each within one pool of rows, in an order that mixes the pools.

    Every pool is shuffled and cut into as few batches as possible, whose sizes differ by one at most: none is left with
    a single segment,
    which would be its own population, or say nothing of a correlation.
    """

    def __init__(self, pools: Sequence[np.ndarray], size: int, seed: int) -> None:
        """Remember what to draw from.

        Args:
            pools: Numbers of rows; each of shape (rows of the pool,).
            size: Most rows of a batch.
            seed: Of the draw, with the epoch's number.
        """
        self._pools, self._seed, self._epoch = list(pools), seed, 0
        self._counts = [math.ceil(len(pool) / size) for pool in self._pools]
        self.batch_size, self.drop_last = size, False

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch is drawn next; a resumed run draws what the interrupted one would have."""
        self._epoch = epoch

    def __len__(self) -> int:
        """Batches of an epoch."""
        return sum(self._counts)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the numbers of the rows of every batch."""
        draw = np.random.default_rng([self._seed, self._epoch])
        pools = zip(self._pools, self._counts, strict=True)
        batches = [batch.tolist() for pool, count in pools for batch in np.array_split(draw.permutation(pool), count)]
        yield from (batches[i] for i in draw.permutation(len(batches)).tolist())


def batches_of(rows: Sequence[TrainingExample], recipe: Recipe) -> Batches:
    """Return the batches of a recipe: of all rows, or of one group each, where a correlation within the batch is
    fitted.

    Raises:
        InputError: A group too small for a correlation.
    """
    if recipe.loss is Loss.MSE:
        return Batches([np.arange(len(rows))], recipe.batch, recipe.seed)
    check_groups(rows)
    groups = np.unique([repr(row.group) for row in rows], return_inverse=True)[1]
    return Batches([np.flatnonzero(groups == group) for group in range(groups.max() + 1)], recipe.batch, recipe.seed)
