"""Whether two columns of numbers order the same rows alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twmd_registry.errors import InputError
from twmd_registry.metaeval.correlation import correlate


class RankAgreement(NamedTuple):
    """How our order of some rows agrees with a paper's.

    Attributes:
        alike: Pairs of rows that the paper orders and we order likewise.
        ordered: Pairs of rows that the paper orders: those whose printed numbers differ.
        tau: Kendall's tau-b between the two columns; NaN where it is undefined.
        best: The paper's best row; several where they are equal.
        ours: Our best row.
        place: The place of the paper's best row (the better of several) in our order, from 1.
        rows: Rows that were compared.
    """

    alike: int
    ordered: int
    tau: float
    best: tuple[str, ...]
    ours: str
    place: int
    rows: int

    @property
    def holds(self) -> bool:
        """Whether every pair that the paper orders is ordered likewise."""
        return self.alike == self.ordered


def compare_order(rows: Sequence[str], here: np.ndarray, paper: np.ndarray) -> RankAgreement | None:
    """Compare our order of rows with a paper's. Rows whose number is undefined here take no part.

    Args:
        rows: Their names.
        here: Our numbers, NaN where undefined; shape (rows,).
        paper: The paper's; shape (rows,).

    Returns:
        The comparison; None when fewer than two rows have a number.
    """
    known = np.flatnonzero(np.isfinite(here))
    if len(known) < 2:
        return None
    names, ours, theirs = [rows[i] for i in known.tolist()], here[known], paper[known]
    first, second = np.triu_indices(len(known), k=1)
    differs = theirs[first] != theirs[second]
    same = np.sign(ours[first] - ours[second]) == np.sign(theirs[first] - theirs[second])
    top = theirs == theirs.max()
    try:
        tau = correlate("kendall", ours, theirs)
    except InputError:
        tau = float("nan")
    return RankAgreement(
        alike=int((same & differs).sum()),
        ordered=int(differs.sum()),
        tau=tau,
        best=tuple(name for name, one in zip(names, top, strict=True) if one),
        ours=names[int(ours.argmax())],
        place=1 + int((ours > ours[top].max()).sum()),
        rows=len(known),
    )
