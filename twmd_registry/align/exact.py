"""``moverscore`` (similarity form): exact transport."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from twmd_registry.align.masks import pair_mask
from twmd_registry.align.tempering import Tempering
from twmd_registry.errors import warn

MOST_ITERATIONS = 1_000_000


def exact(s: Tensor, hyp_mask: Tensor, ref_mask: Tensor, tempering: Tempering) -> Tensor:
    """Score the best balanced plan: ``C = max <pi, S>``, row sums 1/m, column sums 1/n (TWMD paper, Eq. 2).

    The plan is POT's network simplex in float64, and an assignment where both texts have as many tokens; C is
    differentiable in S, with the plan as its gradient (which by the envelope theorem it is).

    Args:
        s: Similarities; shape (B, N, M).
        hyp_mask: Shape (B, N).
        ref_mask: Shape (B, M).
        tempering: Not used.

    Returns:
        C in [-1, 1] for unit vectors, shape (B,).

    Warns:
        TwmdWarning: The solver stopped early on some pair.
    """
    host = s.detach().to("cpu", torch.float64).numpy()
    plans = np.zeros_like(host)
    for b, (rows, columns) in enumerate(zip(hyp_mask.cpu().numpy(), ref_mask.cpu().numpy(), strict=True)):
        tokens = np.ix_(rows, columns)
        plans[b][tokens] = _plan(host[b][tokens])
    return (torch.from_numpy(plans).to(s) * torch.where(pair_mask(hyp_mask, ref_mask), s, 0.0)).sum((1, 2))


def _plan(s: np.ndarray) -> np.ndarray:
    n, m = s.shape
    if n == 1 or m == 1:
        return np.full((n, m), 1 / (n * m))
    return _assignment(s) if n == m else _transport(s)


def _assignment(s: np.ndarray) -> np.ndarray:
    """The best plan between as many tokens: one to one (Birkhoff), found much sooner (2,000 tokens: 0.25 s, not 2.4)."""
    from scipy.optimize import linear_sum_assignment

    plan = np.zeros_like(s)
    plan[linear_sum_assignment(s, maximize=True)] = 1 / len(s)
    return plan


def _transport(s: np.ndarray) -> np.ndarray:
    from ot.lp import emd

    n, m = s.shape
    cost = np.ascontiguousarray(1.0 - s)
    plan, log = emd(np.full(n, 1 / n), np.full(m, 1 / m), cost, numItermax=MOST_ITERATIONS, log=True)
    if log["warning"]:
        warn(f"exact transport of {n} x {m} tokens stopped early: {log['warning']}")
    return np.asarray(plan)
