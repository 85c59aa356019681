"""``twmd``: tempered balanced transport by Sinkhorn sweeps in the log domain."""

from __future__ import annotations

import torch
from torch import Tensor

from twmd_registry.align.masks import masked_logsumexp, mean_of_present, pair_mask, slabs
from twmd_registry.align.tempering import Tempering
from twmd_registry.errors import warn
from twmd_registry.registry.names import Objective

TOLERANCE = 1e-5
"""A plan has converged when its column sums are this close (in total) to the marginal: scores are exact to as much."""
CHECK_EVERY = 50
MOST_CHECKS = 400
"""Sweeps between two looks at the column sums, and how many looks a pair gets before it is left as it is."""
COOLING, WARM_SWEEPS = 0.7, 10
"""``converged`` starts warm and cools by this factor after so many sweeps: the fixed point is the same, the way shorter."""


def sinkhorn(s: Tensor, hyp_mask: Tensor, ref_mask: Tensor, tempering: Tempering) -> Tensor:
    """Score the tempered transport plan (TWMD paper, Eq. 5 and 6).

    The plan starts as ``exp(+S/T)`` (the paper prints a minus; it maximises similarity). One sweep makes every
    reference token's weights sum to one and then every hypothesis token's; after the last sweep
    ``pi = exp(L)/m``, whose row sums are exact. ``expected``: ``C = <pi, S>``. ``entropic``: ``C`` adds the
    tempered plan's entropy per token, ``C = <pi, S> - T mean_i sum_j p_ij log p_ij`` with ``p = m pi`` (so that
    without column sums to respect it is Eq. 7).

    Args:
        s: Similarities; shape (B, N, M).
        hyp_mask: Shape (B, N).
        ref_mask: Shape (B, M).
        tempering: T, the number of sweeps (None: to the fixed point, in float64) and the objective.

    Returns:
        C, shape (B,), in the dtype of `s`.

    Warns:
        TwmdWarning: The fixed point was not reached; the message holds the marginal error.
    """
    present = pair_mask(hyp_mask, ref_mask)
    if tempering.iterations is None:
        log_plan = _fixed_point(s.to(torch.float64), present, tempering.temperature).to(s.dtype)
        return mean_of_present(_gain(log_plan, s, present, tempering), hyp_mask)
    rows = torch.zeros_like(s[:, :, :1])  # (B, N, 1)
    for _ in range(tempering.iterations):
        columns = _balance(s, present, rows, tempering.temperature, dim=1)  # (B, 1, M)
        rows = _balance(s, present, columns, tempering.temperature, dim=2)
    gains = [_gain(s[:, slab] / tempering.temperature + columns + rows[:, slab], s[:, slab], present[:, slab], tempering) for slab in slabs(s, dim=1)]
    return mean_of_present(torch.cat(gains, dim=1), hyp_mask)


def _balance(s: Tensor, present: Tensor, other: Tensor, temperature: float, dim: int) -> Tensor:
    """The potential that makes weights sum to one along an axis, ``-log sum exp(S/T + other)``; that axis is left with length 1."""
    parts = []
    for slab in slabs(s, dim=3 - dim):
        here = (slice(None), slab) if dim == 2 else (slice(None), slice(None), slab)
        parts.append(-masked_logsumexp(s[here] / temperature + other, present[here], dim=dim))
    return torch.cat(parts, dim=3 - dim)


def _gain(log_plan: Tensor, s: Tensor, present: Tensor, tempering: Tempering) -> Tensor:
    """What every hypothesis token contributes to C; (B, N, M) to (B, N)."""
    plan = torch.where(present, log_plan, float("-inf")).exp()  # rows sum to one
    gain = s - tempering.temperature * log_plan if tempering.objective is Objective.ENTROPIC else s
    return (plan * torch.where(present, gain, 0.0)).sum(2)


def _fixed_point(s: Tensor, present: Tensor, temperature: float) -> Tensor:
    """Sweep every pair until its column sums are right, too; returns log p with exact row sums.

    Works on the columns' potential (in units of similarity), so that the plan for one temperature is a good start
    for the next, lower one. A pair stops by its own error alone: its neighbours do not change its plan.
    """
    columns = torch.zeros_like(s[:, :1, :])  # (B, 1, M)
    warm = max(temperature, 1.0)
    while warm > temperature:
        for _ in range(WARM_SWEEPS):
            columns = _sweep(s, present, columns, warm)[1]
        warm *= COOLING
    waiting = torch.arange(len(s), device=s.device)
    done: list[tuple[Tensor, Tensor]] = []
    for check in range(1, MOST_CHECKS + 1):
        for _ in range(CHECK_EVERY):
            log_plan, columns, error = _sweep(s, present, columns, temperature)
        stop = error <= TOLERANCE if check < MOST_CHECKS else torch.ones_like(error, dtype=torch.bool)
        done.append((waiting[stop], log_plan[stop]))
        if bool(stop.all()):
            break
        waiting, s, present, columns = waiting[~stop], s[~stop], present[~stop], columns[~stop]
    worst = float(error.max().detach())
    if worst > TOLERANCE:
        warn(
            f"twmd did not converge for {len(error)} pairs at T={temperature}: after {MOST_CHECKS * CHECK_EVERY} sweeps the marginals "
            f"are off by up to {worst:.1e} in total."
        )
    order = torch.argsort(torch.cat([index for index, _ in done]))
    return torch.cat([plan for _, plan in done])[order]


def _sweep(s: Tensor, present: Tensor, columns: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """One sweep, rows last.

    Returns:
        log p with exact row sums (B, N, M), the columns' next potential (B, 1, M), and how far the column sums of pi are
        from 1/n in total (B,).
    """
    log_plan = (s + columns) / temperature
    log_plan = log_plan - masked_logsumexp(log_plan, present, dim=2)  # (B, N, M)
    log_sums = masked_logsumexp(log_plan, present, dim=1)  # (B, 1, M), of p = m pi
    m, n = present.any(2).sum(1).to(s.dtype), present.any(1).sum(1).to(s.dtype)  # (B,)
    off = torch.where(present.any(1), log_sums.squeeze(1).exp() / m[:, None] - 1 / n[:, None], 0.0)  # (B, M)
    return log_plan, columns + temperature * (torch.log(m / n)[:, None, None] - log_sums), off.abs().sum(1)
