"""Correlations of two vectors, of the data and of many resamples of their rows at once.

A resample is a column of weights: how often every row was drawn. So all resamples share what is sorted once. Shapes: N
rows, B resamples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from twmd_registry.errors import InputError

LEAST_ROWS = 3


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's r, ``sum(dx dy) / sqrt(sum(dx^2) sum(dy^2))`` with d the difference from the mean.

    Args:
        x: Shape (N,).
        y: Shape (N,).

    Returns:
        From -1 to 1.

    Raises:
        InputError: Fewer than three rows, or one side is constant.

    >>> round(pearson(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0])), 3)
    0.982
    """
    check_variation(x, y)
    return float(np.clip(_direction(x) @ _direction(y), -1, 1))


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's rho: Pearson's r of the ranks, tied rows with the mean of theirs; arguments and errors as for
    `pearson`.
    """
    check_variation(x, y)
    return pearson(stats.rankdata(x), stats.rankdata(y))


def kendall(x: np.ndarray, y: np.ndarray) -> float:
    """Kendall's tau-b, ``(C - D) / sqrt((P - Tx)(P - Ty))``: concordant, discordant, all and tied pairs; otherwise as
    `pearson`.
    """
    check_variation(x, y)
    # "asymptotic" is about the p-value, which is not used: the exact one of short vectors takes longer than tau itself.
    return float(stats.kendalltau(x, y, method="asymptotic").statistic)


def check_variation(x: np.ndarray, y: np.ndarray) -> None:
    """Refuse vectors that have no correlation.

    Args:
        x: Scores.
        y: Ratings.

    Raises:
        InputError: Fewer than three rows, or one side is constant.
    """
    if len(x) < LEAST_ROWS:
        raise InputError(f"{LEAST_ROWS} or more segments are needed, there are {len(x)}")
    for side, values in (("scores", x), ("ratings", y)):
        if np.ptp(values) == 0:
            raise InputError(f"the {side} are constant ({values[0]:g})")


def _direction(values: np.ndarray) -> np.ndarray:
    """Differences from the mean, of length 1; scaled first, so that squares of tiny numbers do not vanish."""
    centred = values - values.mean()
    centred /= np.abs(centred).max()
    return np.asarray(centred / np.linalg.norm(centred))


def resampled_pearson(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Pearson's r of every resample; O(NB).

    Args:
        x: Shape (N,).
        y: Shape (N,).
        weights: How often every row was drawn; shape (N, B), int.

    Returns:
        Shape (B,); NaN where a resample is constant, which leaves it undefined.
    """
    rows = weights.sum(axis=0)
    tied_x, tied_y = _tied(x, weights), _tied(y, weights)
    dx = x[:, None] - x @ weights / rows  # (N, B)
    dy = y[:, None] - y @ weights / rows  # (N, B)
    squares_x, squares_y, products = (
        np.einsum("nb,nb,nb->b", weights, *both) for both in ((dx, dx), (dy, dy), (dx, dy))
    )
    undefined = (tied_x.counts.max(axis=0) == rows) | (tied_y.counts.max(axis=0) == rows)
    return _quotient(products, np.sqrt(squares_x * squares_y), undefined)


def resampled_spearman(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Spearman's rho of every resample, which is ranked anew; O(NB); arguments and result as for
    `resampled_pearson`.
    """
    tied_x, tied_y = _tied(x, weights), _tied(y, weights)
    ranks_x, ranks_y = _centred_ranks(tied_x), _centred_ranks(tied_y)
    norm_x = (tied_x.counts * ranks_x * ranks_x).sum(axis=0).astype(np.float64)
    norm_y = (tied_y.counts * ranks_y * ranks_y).sum(axis=0).astype(np.float64)
    products = (weights * ranks_x[tied_x.code] * ranks_y[tied_y.code]).sum(axis=0)
    return _quotient(products, np.sqrt(norm_x * norm_y), (norm_x == 0) | (norm_y == 0))


def resampled_kendall(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Kendall's tau-b of every resample; O(NB log N); arguments and result as for `resampled_pearson`.

    Rows are taken by ascending x. A Fenwick tree over the values of y holds, for every resample, how many rows were
    taken up to a value; so
    a row learns how many of the rows with a smaller x have a smaller y (concordant) and how many a greater one
    (discordant).
    """
    tied_x, tied_y = _tied(x, weights), _tied(y, weights)
    rows = weights.sum(axis=0)
    pairs = [
        (rows * rows - (tied.counts * tied.counts).sum(axis=0)) // 2 for tied in (tied_x, tied_y)
    ]  # untied in x, in y
    balance = _concordant_minus_discordant(tied_x, tied_y, weights)
    norms = np.sqrt(pairs[0].astype(np.float64) * pairs[1])
    return _quotient(balance, norms, norms == 0)


class _TiedValues(NamedTuple):
    """The different values of a vector.

    Attributes:
        code: Which value, in ascending order, every row has; shape (N,).
        counts: How many drawn rows have a value; shape (values, B).
    """

    code: np.ndarray
    counts: np.ndarray


def _tied(values: np.ndarray, weights: np.ndarray) -> _TiedValues:
    _, code = np.unique(values, return_inverse=True)
    order = np.argsort(code, kind="stable")
    first = np.flatnonzero(np.diff(code[order], prepend=-1))
    return _TiedValues(code, np.add.reduceat(weights[order], first, axis=0))


def _centred_ranks(tied: _TiedValues) -> np.ndarray:
    """Twice the difference of a value's mean rank from the mean of all ranks, an integer; shape (values, B)."""
    upto = np.cumsum(tied.counts, axis=0)
    return np.asarray(2 * upto - tied.counts - upto[-1])


def _concordant_minus_discordant(tied_x: _TiedValues, tied_y: _TiedValues, weights: np.ndarray) -> np.ndarray:
    size = len(tied_y.counts)
    tree = np.zeros((size + 1, weights.shape[1]), dtype=weights.dtype)
    balance, taken = np.zeros_like(tree[0]), np.zeros_like(tree[0])
    order = np.argsort(tied_x.code, kind="stable")
    for block in np.split(order, np.flatnonzero(np.diff(tied_x.code[order])) + 1):  # rows of one x are no pairs
        for row in block:
            code = int(tied_y.code[row])
            below, upto = (tree[_prefix(end)].sum(axis=0) for end in (code, code + 1))
            balance += weights[row] * (below + upto - taken)
        for row in block:
            tree[_holders(int(tied_y.code[row]), size)] += weights[row]
            taken += weights[row]
    return np.asarray(balance)


def _prefix(end: int) -> list[int]:
    """Nodes of a Fenwick tree that sum up the values before the given one."""
    nodes = []
    while end:
        nodes.append(end)
        end &= end - 1
    return nodes


def _holders(code: int, size: int) -> list[int]:
    """Nodes of a Fenwick tree that hold a value."""
    nodes, node = [], code + 1
    while node <= size:
        nodes.append(node)
        node += node & -node
    return nodes


def _quotient(numerator: np.ndarray, denominator: np.ndarray, undefined: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(undefined, np.nan, np.clip(numerator / denominator, -1, 1))
