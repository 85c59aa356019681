"""C(X, Y) of every metric of the family for a single pair, hypothesis side, by loops and by a general LP solver."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import linprog
from scipy.special import logsumexp


def pooled(s: np.ndarray) -> float:
    return float(sum(s[i, j] for i in range(s.shape[0]) for j in range(s.shape[1])) / s.size)


def kernel(s: np.ndarray) -> float:
    return float(sum(s[i, j] ** 2 for i in range(s.shape[0]) for j in range(s.shape[1])))


def greedy(s: np.ndarray) -> float:
    return float(sum(max(row) for row in s) / len(s))


def relaxed(s: np.ndarray, temperature: float, *, entropic: bool = False) -> float:
    total = 0.0
    for row in s:
        shifted = [math.exp((x - max(row)) / temperature) for x in row]
        if entropic:
            total += max(row) + temperature * math.log(sum(shifted))
        else:
            total += sum(w * x for w, x in zip(shifted, row, strict=True)) / sum(shifted)
    return total / len(s)


def sinkhorn_plan(s: np.ndarray, temperature: float, sweeps: int) -> np.ndarray:
    log_plan = np.array(s, dtype=np.float64) / temperature
    for _ in range(sweeps):
        log_plan -= logsumexp(log_plan, axis=0, keepdims=True)
        log_plan -= logsumexp(log_plan, axis=1, keepdims=True)
    return np.asarray(np.exp(log_plan) / len(s))


def sinkhorn(s: np.ndarray, temperature: float, sweeps: int, *, entropic: bool = False) -> float:
    plan = sinkhorn_plan(s, temperature, sweeps)
    value = float((plan * s).sum())
    if entropic:
        rows = plan * len(s)
        value -= temperature * float(np.where(rows > 0, rows * np.log(np.where(rows > 0, rows, 1)), 0).sum()) / len(s)
    return value


def exact(s: np.ndarray) -> float:
    m, n = s.shape
    rows = np.kron(np.eye(m), np.ones(n))
    columns = np.kron(np.ones(m), np.eye(n))
    solved = linprog(
        -s.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.r_[np.full(m, 1 / m), np.full(n, 1 / n)], method="highs"
    )
    return -float(np.asarray(solved.fun))


def f1(p: float, r: float) -> float:
    return 2 * p * r / (p + r) if p > 0 and r > 0 else min(p, r)


def normalised(c: float, of_hypothesis: float, of_reference: float) -> float:
    """Eq. 1."""
    return c / math.sqrt(of_hypothesis * of_reference) if of_hypothesis > 0 and of_reference > 0 else 0.0


def column_sums(plan: np.ndarray) -> list[float]:
    return [float(sum(plan[i, j] for i in range(plan.shape[0]))) for j in range(plan.shape[1])]


def group_means(texts: list[np.ndarray], group: list[int], weight: list[int], groups: int) -> list[np.ndarray]:
    """Return the mean token of every group, each text taken as often as it occurs; zero for a group without tokens."""
    means = []
    for g in range(groups):
        tokens = [
            vector
            for text, mine, times in zip(texts, group, weight, strict=True)
            if mine == g
            for vector in text
            for _ in range(times)
        ]
        means.append(sum(tokens[1:], tokens[0]) / len(tokens) if tokens else np.zeros(texts[0].shape[1]))
    return means
