"""``moverscore``: exact transport."""

from __future__ import annotations

import functools
import itertools
import random
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from twmd_registry.messages import warn
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.names import Distance
from twmd_registry.tensors import PaddedTokens

MAX_ITERATIONS = 1_000_000
MIN_SQUARED_DISTANCE = 1e-14
"""Smaller squared distances count as 0, where the square root has an infinite gradient."""


def exact(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Score the optimal plan: ``C = 1 - EMD``, ``EMD = min <pi, cost>``; warn if the solver stopped early.

    Rows and columns of a plan sum to the tokens' shares: 1/N and 1/M, or the weights divided by their sum (Zhao et al.
    2019, Eq. 1 and 2). For unit vectors x and y the cost is ``1 - x y`` (``similarity``, for which ``C = max <pi, S>``,
    the TWMD paper's Eq. 2), ``|x - y|^2 = 2 - 2 x y``, or ``|x - y|``. C is in [-1, 1], or in [-3, 1] with
    ``sqeuclidean``. `invert_cost` is applied later, to the scores of both sides.

    POT's network simplex finds the plan in float64. Equally many tokens of equal weight are an assignment problem. C is
    differentiable in S; by the envelope theorem its gradient is the plan.
    """
    distance = spec.distance or "similarity"
    gain = GAINS[distance](s)  # (B, N, M)
    plans = _plans(gain, hyp, ref, ZERO_COST_GAINS[distance])
    best_gain = (plans.to(s) * torch.where(hyp.mask[:, :, None] & ref.mask[:, None, :], gain, 0.0)).sum((1, 2))
    return best_gain + (1 - ZERO_COST_GAINS[distance])


def exact_plan(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Return the optimal plan; shape (B, N, M)."""
    distance = spec.distance or "similarity"
    return _plans(GAINS[distance](s), hyp, ref, ZERO_COST_GAINS[distance]).to(s)


GAINS: dict[Distance, Callable[[Tensor], Tensor]] = {
    "similarity": lambda s: s,
    "sqeuclidean": lambda s: 2 * s - 2,
    "euclidean": lambda s: (
        -torch.where(2 - 2 * s > MIN_SQUARED_DISTANCE, (2 - 2 * s).clamp(min=MIN_SQUARED_DISTANCE).sqrt(), 0.0)
    ),
}
"""The plan's objective, up to a constant: minus the cost."""

ZERO_COST_GAINS = {"similarity": 1.0, "sqeuclidean": 0.0, "euclidean": 0.0}
"""Gain of a move without cost. EMD is this minus the optimal plan's gain."""


def invert_cost(c: Tensor) -> Tensor:
    """Return 1 / (1 + EMD) from c = 1 - EMD (``transform=inverse``), which has the same optimal plan.

    For unit vectors it is in [1/3, 1], or in [1/5, 1] with ``sqeuclidean``.
    """
    return 1 / (2 - c)


def _plans(gain: Tensor, hyp: PaddedTokens, ref: PaddedTokens, zero_cost_gain: float) -> Tensor:
    """Return the optimal plan of every pair, float64 on the CPU; shape (B, N, M)."""
    cost = zero_cost_gain - gain.detach().to("cpu", torch.float64).numpy()
    plans = np.zeros_like(cost)
    a, b = (side.weights.to("cpu", torch.float64).numpy() for side in (hyp, ref))

    def solve(pairs: np.ndarray) -> list[str]:
        messages = []
        for k in pairs.tolist():
            tokens = np.ix_(a[k] > 0, b[k] > 0)
            plans[k][tokens], message = _plan(cost[k][tokens], a[k][a[k] > 0], b[k][b[k] > 0])
            messages += [message] if message else []
        return messages

    workers = min(torch.get_num_threads(), len(cost))
    with ThreadPoolExecutor(workers) as pool:  # both solvers release the GIL
        for warning in itertools.chain.from_iterable(pool.map(solve, np.array_split(np.arange(len(cost)), workers))):
            warn(warning)
    return torch.from_numpy(plans)


def _plan(cost: np.ndarray, row_weights: np.ndarray, column_weights: np.ndarray) -> tuple[np.ndarray, str | None]:
    """Return the optimal plan of one pair, and the solver's warning or None."""
    n, m = cost.shape
    a, b = row_weights / row_weights.sum(), column_weights / column_weights.sum()
    if n == 1 or m == 1:
        return np.outer(a, b), None
    if n == m and (a == a[0]).all() and (b == b[0]).all():
        # By Birkhoff's theorem an assignment is optimal, and faster to find: 0.25 s instead of 2.4 s for 2,000 tokens.
        from scipy.optimize import linear_sum_assignment

        plan = np.zeros_like(cost)
        plan[linear_sum_assignment(cost)] = 1 / n
        return plan, None
    plan, log = _emd()(a, b, np.ascontiguousarray(cost), numItermax=MAX_ITERATIONS, log=True)
    message = f"exact transport of {n} x {m} tokens stopped early: {log['warning']}" if log["warning"] else None
    return np.asarray(plan), message


@functools.cache
def _emd() -> Callable[..., Any]:
    """Import POT's solver. Restore Python's random state, because a library that POT imports draws a random number.

    Python's warnings about compiling POT's code are ignored, because users cannot act on them.
    """
    state = random.getstate()
    try:
        with warnings.catch_warnings(action="ignore"):
            from ot.lp import emd
    finally:
        random.setstate(state)
    solver: Callable[..., Any] = emd
    return solver
