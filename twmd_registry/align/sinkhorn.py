"""``twmd``: tempered balanced transport by Sinkhorn sweeps in the log domain."""

from __future__ import annotations

import torch
from torch import Tensor

from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.errors import warn
from twmd_registry.registry.names import Objective
from twmd_registry.tensors import ABSENT, PaddedTokens, masked_log_softmax, masked_logsumexp, slabs

TOLERANCE = 1e-5
"""A plan has converged when its column sums are this close (in total) to the marginal: scores are exact to as much."""
CHECK_EVERY = 50
MOST_CHECKS = 400
"""Sweeps between two looks at the column sums, and how many looks a pair gets before it is left as it is."""
COOLING, WARM_SWEEPS = 0.7, 10
"""``converged`` starts warm and cools by this factor after this number of sweeps: the fixed point is the same, in fewer
sweeps.
"""


def sinkhorn(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, how: AlignmentSettings) -> Tensor:
    """Score the tempered transport plan (TWMD paper, Eq. 5 and 6).

    The plan starts as ``exp(+S/T)`` (the paper prints a minus; it maximises similarity). One sweep makes every
    reference token's weights sum to one and then every hypothesis token's; after the last sweep ``pi = exp(L)/N``,
    whose row sums are exact. ``expected``: ``C = <pi, S>``. ``entropic``: ``C`` adds the tempered plan's entropy per
    token, ``C = <pi, S> - T mean_i sum_j p_ij log p_ij`` with ``p = N pi`` (so that without column sums to respect it
    is Eq. 7). With weights a and b the plan starts as ``a_i b_j exp(S_ij/T)`` and its rows and columns sum to the
    weights: a token of weight 2 is two tokens of weight 1.

    Args:
        s: Similarities; shape (B, N, M).
        hyp: Hypothesis tokens.
        ref: Reference tokens.
        how: T, the number of sweeps (None: to the fixed point, in float64) and the objective.

    Returns:
        C, shape (B,), in the dtype of `s`.

    Warns:
        TwmdWarning: The fixed point was not reached; the message holds the marginal error.
    """
    present = hyp.has_mass[:, :, None] & ref.has_mass[:, None, :]  # (B, N, M)
    if how.iterations is None:
        log_plan = _fixed_point(s.to(torch.float64), hyp, ref, how.temperature).to(s.dtype)
        return hyp.mean(_gain(log_plan, s, present, ref.log_weights, how))
    columns = _column_potential(s, present, hyp, ref, how)
    gains = []
    for slab in slabs(s, dim=1):
        # The row step of the last sweep.
        log_plan = masked_log_softmax(s[:, slab] / how.temperature + columns, present[:, slab])
        gains.append(_gain(log_plan, s[:, slab], present[:, slab], ref.log_weights, how))
    return hyp.mean(torch.cat(gains, dim=1))


def sinkhorn_plan(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, how: AlignmentSettings) -> Tensor:
    """Return the tempered plan; shape (B, N, M); its rows sum to the hypothesis tokens' shares."""
    present = hyp.has_mass[:, :, None] & ref.has_mass[:, None, :]
    if how.iterations is None:
        log_plan = _fixed_point(s.to(torch.float64), hyp, ref, how.temperature).to(s.dtype)
    else:
        log_plan = masked_log_softmax(s / how.temperature + _column_potential(s, present, hyp, ref, how), present)
    return hyp.shares[:, :, None] * torch.where(present, log_plan, ABSENT).exp()


def _column_potential(
    s: Tensor, present: Tensor, hyp: PaddedTokens, ref: PaddedTokens, how: AlignmentSettings
) -> Tensor:
    """Return what all steps before the last row step add to the columns of S/T; shape (B, 1, M)."""
    log_a, log_b = hyp.log_weights[:, :, None], ref.log_weights[:, None, :]
    rows, columns = torch.zeros_like(s[:, :, :1]), torch.zeros_like(s[:, :1, :])  # (B, N, 1), (B, 1, M)
    for sweep in range(how.iterations or 0):
        if sweep:
            rows = _balance(s, present, columns, how.temperature, dim=2)
        columns = _balance(s, present, rows + log_a, how.temperature, dim=1) + log_b
    return columns


def _balance(s: Tensor, present: Tensor, other: Tensor, temperature: float, dim: int) -> Tensor:
    """Return ``-log sum exp(S/T + other)`` along an axis, which keeps length 1: after adding it, sums are one there."""
    parts = []
    for slab in slabs(s, dim=3 - dim):
        here = (slice(None), slab) if dim == 2 else (slice(None), slice(None), slab)
        parts.append(-masked_logsumexp(s[here] / temperature + other, present[here], dim=dim))
    return torch.cat(parts, dim=3 - dim)


def _gain(log_plan: Tensor, s: Tensor, present: Tensor, log_weights: Tensor, how: AlignmentSettings) -> Tensor:
    """Return what each hypothesis token contributes to C; (B, N, M) to (B, N)."""
    plan = torch.where(present, log_plan, ABSENT).exp()  # rows sum to one
    if how.objective is Objective.EXPECTED:
        return (plan * torch.where(present, s, 0.0)).sum(2)
    # A partner of weight w is w partners of weight 1, each with a share of 1 / w.
    log_cells = log_plan - log_weights[:, None, :]
    return (plan * torch.where(present, s - how.temperature * log_cells, 0.0)).sum(2)


def _fixed_point(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, temperature: float) -> Tensor:
    """Sweep until the column sums are right, too, and return log p, whose row sums are exact.

    The column potential is in units of similarity, so that the potential of one temperature is a good start for the
    next, lower one. A pair stops by its own error alone: its neighbours do not change its plan.
    """
    columns = torch.zeros_like(s[:, :1, :])  # (B, 1, M)
    warm = max(temperature, 1.0)
    while warm > temperature:
        for _ in range(WARM_SWEEPS):
            columns = _sweep(s, hyp, ref, columns, warm)[1]
        warm *= COOLING
    waiting = torch.arange(len(s), device=s.device)
    done: list[tuple[Tensor, Tensor]] = []
    for check in range(1, MOST_CHECKS + 1):
        for _ in range(CHECK_EVERY):
            log_plan, columns, error = _sweep(s, hyp, ref, columns, temperature)
        stop = error <= TOLERANCE if check < MOST_CHECKS else torch.ones_like(error, dtype=torch.bool)
        done.append((waiting[stop], log_plan[stop]))
        if bool(stop.all()):
            break
        waiting, s, columns, hyp, ref = waiting[~stop], s[~stop], columns[~stop], hyp.select(~stop), ref.select(~stop)
    worst = float(error.max().detach())
    if worst > TOLERANCE:
        warn(
            f"twmd did not converge for {len(error)} pairs at T={temperature}: after "
            f"{MOST_CHECKS * CHECK_EVERY} sweeps the marginals are off by up to {worst:.1e} in total."
        )
    order = torch.argsort(torch.cat([index for index, _ in done]))
    return torch.cat([plan for _, plan in done])[order]


def _sweep(
    s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, columns: Tensor, temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Do one sweep, rows last.

    Returns:
        log p with exact row sums (B, N, M), the next column potential (B, 1, M), and by how much the column sums of pi
        differ from the reference tokens' shares in total (B,).
    """
    present = hyp.has_mass[:, :, None] & ref.has_mass[:, None, :]
    log_plan = (s + columns) / temperature
    log_plan = log_plan - masked_logsumexp(log_plan, present, dim=2)  # (B, N, M)
    log_sums = masked_logsumexp(log_plan + hyp.log_weights[:, :, None], present, dim=1)  # (B, 1, M), of p = N pi
    m, n = hyp.total.to(s.dtype), ref.total.to(s.dtype)  # (B,)
    wanted = 1 / n[:, None] if ref.weights is None else ref.shares.to(s.dtype)  # (B, M)
    off = torch.where(present.any(1), log_sums.squeeze(1).exp() / m[:, None] - wanted, 0.0)  # (B, M)
    missing = torch.log(m / n)[:, None, None] - log_sums + ref.log_weights[:, None, :]
    return log_plan, columns + temperature * missing, off.abs().sum(1)
