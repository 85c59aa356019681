"""C(X, Y) of every metric of the family for a single pair, hypothesis side, by loops and by a general LP solver."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from tests.oracles import movers


def pooled(s: np.ndarray) -> float:
    return float(sum(s[i, j] for i in range(s.shape[0]) for j in range(s.shape[1])) / s.size)


def kernel(s: np.ndarray) -> float:
    return float(sum(s[i, j] ** 2 for i in range(s.shape[0]) for j in range(s.shape[1])))


def greedy(s: np.ndarray) -> float:
    return float(sum(max(row) for row in s) / len(s))


def relaxed(
    s: np.ndarray,
    temperature: float,
    a: np.ndarray | None = None,
    b: np.ndarray | None = None,
    *,
    entropic: bool = False,
) -> float:
    """Choose partners by softmax; a token of weight b is chosen as b tokens of weight one, the weight of all by default."""
    a, b = np.ones(len(s)) if a is None else a, np.ones(len(s.T)) if b is None else b
    logits = s / temperature + np.log(b)
    total = logsumexp(logits, axis=1, keepdims=True)
    each = temperature * total[:, 0] if entropic else (np.exp(logits - total) * s).sum(axis=1)
    return float(a @ each / a.sum())


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
    return -movers.emd(-s, *map(np.ones, s.shape))


def f1(p: float, r: float) -> float:
    return 2 * p * r / (p + r) if p > 0 and r > 0 else min(p, r)


def normalised(c: float, of_hypothesis: float, of_reference: float) -> float:
    """Eq. 1."""
    return c / math.sqrt(of_hypothesis * of_reference) if of_hypothesis > 0 and of_reference > 0 else 0.0
