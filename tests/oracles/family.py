"""C(X, Y) of every metric of the family for a single pair, hypothesis side, by plain formulas and a general LP solver.

`s` are the similarities of the tokens, `a` and `b` the weights of both sides: a token of weight k counts as k tokens.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from tests.oracles import movers


def c(
    metric: str,
    s: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    *,
    temperature: object,
    iterations: object,
    objective: object,
) -> float:
    if metric == "sbert":
        return float(a @ s @ b / a.sum() / b.sum())
    if metric == "wordset_cka":
        return float(a @ s**2 @ b)
    if metric == "bertscore_centered":  # any partner may be chosen, one of weight 0, too
        return float(sum(weight * max(row) for weight, row in zip(a, s, strict=True)) / a.sum())
    if metric == "moverscore":
        return -movers.emd(-s, a, b)
    s, a, b, entropic = s[a > 0][:, b > 0], a[a > 0], b[b > 0], objective == "entropic"
    if metric == "trwmd":
        return relaxed(s, a, b, float(str(temperature)), entropic=entropic)
    if metric == "twmd":
        return sinkhorn(s, a, b, float(str(temperature)), str(iterations), entropic=entropic)
    raise KeyError(metric)


def relaxed(s: np.ndarray, a: np.ndarray, b: np.ndarray, temperature: float, *, entropic: bool) -> float:
    """Choose partners by softmax."""
    logits = s / temperature + np.log(b)
    total = logsumexp(logits, axis=1, keepdims=True)
    values = temperature * total[:, 0] if entropic else (np.exp(logits - total) * s).sum(axis=1)
    return float(a @ values / a.sum())


def sinkhorn(
    s: np.ndarray, a: np.ndarray, b: np.ndarray, temperature: float, iterations: str, *, entropic: bool
) -> float:
    """Return C. A row of exp(plan) is how a copy of a hypothesis token is distributed over reference tokens; a sweep
    gives each copy of a reference token the sum 1."""
    plan = s / temperature + np.log(b)
    if iterations == "converged":
        plan += balancing(s, a / a.sum(), b / b.sum(), temperature) / temperature
        plan -= logsumexp(plan, axis=1, keepdims=True)
    for _ in range(0 if iterations == "converged" else int(iterations)):
        plan -= logsumexp(plan + np.log(a)[:, None], axis=0, keepdims=True) - np.log(b)
        plan -= logsumexp(plan, axis=1, keepdims=True)
    choices = np.exp(plan)
    values = (choices * s).sum(axis=1)
    if entropic:
        values -= temperature * (choices * (plan - np.log(b))).sum(axis=1)
    return float(a @ values / a.sum())


def balancing(s: np.ndarray, a: np.ndarray, b: np.ndarray, temperature: float) -> np.ndarray:
    """Return the offsets to add to the columns of S so that the rows' choices sum to b.

    It is the minimum of the convex ``T sum_i a_i log sum_j b_j exp((S_ij + v_j) / T) - b v``, which Newton's method
    finds: from a high temperature down, since the minimum at one is a good start at the next.
    """
    v = np.zeros_like(b)

    def look(v: np.ndarray, t: float) -> tuple[float, np.ndarray]:
        logits = (s + v) / t + np.log(b)
        total = logsumexp(logits, axis=1, keepdims=True)
        return float(t * (a @ total[:, 0]) - b @ v), np.exp(logits - total)

    for t in [temperature * 2.0**k for k in range(max(0, math.ceil(-math.log2(temperature))), -1, -1)]:
        for _ in range(100):
            value, choices = look(v, t)
            sums = a @ choices
            slope = sums - b
            if np.abs(slope).max() < 1e-11:
                break
            curvature = (np.diag(sums) - choices.T @ (a[:, None] * choices)) / t
            step = -np.linalg.lstsq(curvature, slope)[0]
            length = 1.0
            while look(v + length * step, t)[0] > value + 1e-4 * length * (slope @ step) + 1e-15:
                length /= 2
            v = v + length * step
    return v


def f1(p: float, r: float) -> float:
    return 2 * p * r / (p + r) if p > 0 and r > 0 else min(p, r)


def normalised(c: float, of_hypothesis: float, of_reference: float) -> float:
    """Eq. 1."""
    return c / math.sqrt(of_hypothesis * of_reference) if of_hypothesis > 0 and of_reference > 0 else 0.0
