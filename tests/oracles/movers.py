"""MoverScore, the original, step by step for a single text or pair: loops, and a general LP solver."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from scipy.optimize import linprog


def emd(cost: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Return the minimum cost of moving the weights `a` onto the weights `b`, both scaled to a sum of one."""
    n, m = cost.shape
    rows, columns = np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))
    solved = linprog(
        cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.r_[a / a.sum(), b / b.sum()], method="highs"
    )
    return float(np.asarray(solved.fun))


def cost(x: np.ndarray, y: np.ndarray, distance: str) -> float:
    """Return the cost of moving one unit vector onto another."""
    squared = _squared(x, y)
    if distance == "similarity":
        return 1 - float(x @ y)
    return squared if distance == "sqeuclidean" else math.sqrt(squared)


def costs(x: np.ndarray, y: np.ndarray, distance: str) -> np.ndarray:
    return np.array([[cost(p, q, distance) for q in y] for p in x])


def score(distance: float, transform: str) -> float:
    return 1 - distance if transform == "linear" else 1 / (1 + distance)


def power_mean(layers: np.ndarray, power: str) -> np.ndarray:
    """Return the p-mean of one token's L vectors by dimension; an odd root of a negative number is negative."""
    if power in {"inf", "-inf"}:
        return np.array([max(column) if power == "inf" else min(column) for column in layers.T])
    p, found = int(power), []
    for column in layers.T:
        mean = sum(float(x) ** p for x in column) / len(column)
        found.append(math.copysign(abs(mean) ** (1 / p), mean))
    return np.array(found)


def routing(layers: np.ndarray, kernel: str, rounds: int = 50) -> np.ndarray:
    """Algorithm 1 for one token's L vectors: squared distance, alpha 1, epsilon 1e-4, started at the mean."""
    v = np.array([sum(column) / len(column) for column in layers.T])
    gamma, before = [0.0] * len(layers), math.inf
    for _ in range(rounds):
        largest = max(gamma)
        gamma = [math.exp(g - largest) for g in gamma]
        gamma = [g / sum(gamma) for g in gamma]
        slopes = [_slope(_squared(v, z), kernel) for z in layers]
        if sum(slopes) > 0:
            v = sum((g * slope * z for g, slope, z in zip(gamma, slopes, layers, strict=True)), np.zeros_like(v)) / sum(
                slopes
            )
        near = [_kernel(_squared(v, z), kernel) for z in layers]
        gamma = [g + k for g, k in zip(gamma, near, strict=True)]
        total = sum(g * k for g, k in zip(gamma, near, strict=True))
        if total <= 0:
            break
        loss = math.log(total)
        if abs(loss - before) < 1e-4:
            break
        before = loss
    return v


def _squared(x: np.ndarray, y: np.ndarray) -> float:
    return float(((x - y) ** 2).sum())


def _kernel(x: float, kernel: str) -> float:
    return math.exp(-x / 2) if kernel == "gaussian" else max(0.0, 1 - x)


def _slope(x: float, kernel: str) -> float:
    """-k'(x); what is common to all of them cancels."""
    return math.exp(-x / 2) / 2 if kernel == "gaussian" else float(x < 1)


def ngrams(vectors: np.ndarray, weights: list[float] | None, n: int) -> tuple[np.ndarray, list[float]]:
    """Return all windows of n adjacent tokens of a text, and their weights."""
    weigh = [1.0] * len(vectors) if weights is None else weights
    width = min(n, len(vectors))
    rows, totals = [], []
    for start in range(len(vectors) - width + 1 if len(vectors) else 0):
        window = list(range(start, start + width))
        total = sum(weigh[t] for t in window)
        shares = {t: weigh[t] / total if total > 0 else 1 / width for t in window}
        rows.append(sum((shares[t] * vectors[t] for t in window), np.zeros(vectors.shape[1])))
        totals.append(total)
    return np.array(rows).reshape(len(rows), vectors.shape[1]), totals


def idf(documents: Sequence[Collection[int]], token: int) -> float:
    """Of one token over texts, each given by its token ids."""
    holding = sum(1 for document in documents if token in document)
    return math.log((len(documents) + 1) / (holding + 1))
