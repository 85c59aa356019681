"""``twmd``: tempered balanced transport by Sinkhorn sweeps in the log domain."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from twmd_registry.align.masks import masked_logsumexp, mean_of_present, pair_mask
from twmd_registry.align.tempering import Tempering
from twmd_registry.errors import TwmdWarning
from twmd_registry.registry.names import Objective

TOLERANCE = 1e-6
"""A plan has converged when its column sums are this close (in total) to the marginal."""
MOST_SWEEPS = 20_000
COOLING = 0.7
"""``converged`` starts warm and cools by this factor: the fixed point is the same, the way there is shorter."""


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
    else:
        log_plan = s / tempering.temperature
        for _ in range(tempering.iterations):
            log_plan = log_plan - masked_logsumexp(log_plan, present, dim=1)
            log_plan = log_plan - masked_logsumexp(log_plan, present, dim=2)
    plan = torch.where(present, log_plan, float("-inf")).exp()  # (B, N, M), rows sum to one
    gain = s
    if tempering.objective is Objective.ENTROPIC:
        gain = s - tempering.temperature * log_plan
    return mean_of_present((plan * torch.where(present, gain, 0.0)).sum(2), hyp_mask)


def _fixed_point(s: Tensor, present: Tensor, temperature: float) -> Tensor:
    """Sweep until the column sums are right, too; returns log p with exact row sums.

    Works on the two potentials (in units of similarity), so that the plan for one temperature is a good start
    for the next, lower one.
    """
    hyp_share = 1 / present.any(2).sum(1).to(s.dtype)  # (B,), 1/m
    ref_share = 1 / present.any(1).sum(1).to(s.dtype)  # (B,), 1/n
    log_column_sum = torch.log(ref_share / hyp_share)[:, None, None]
    columns = torch.zeros_like(s[:, :1, :])  # (B, 1, M)
    current, sweeps = max(temperature, 1.0), 0
    while True:
        last = current <= temperature
        for _ in range(MOST_SWEEPS if last else 10):
            rows = -current * masked_logsumexp((s + columns) / current, present, dim=2)  # (B, N, 1)
            sums = masked_logsumexp((s + rows + columns) / current, present, dim=1)  # (B, 1, M)
            error = _marginal_error(sums, present, hyp_share, ref_share)
            sweeps += 1
            if error <= TOLERANCE:
                break
            columns = columns + current * (log_column_sum - sums)
        if last:
            break
        current = max(temperature, current * COOLING)
    if error > TOLERANCE:
        warnings.warn(
            f"twmd did not converge at T={temperature} after {sweeps} sweeps: the marginals are off by {error:.1e} in total.",
            TwmdWarning,
            stacklevel=2,
        )
    return (s + rows + columns) / current


def _marginal_error(log_sums: Tensor, present: Tensor, hyp_share: Tensor, ref_share: Tensor) -> float:
    """Largest total deviation of the column sums of pi from 1/n over all pairs."""
    columns = present.any(1)  # (B, M)
    sums = log_sums.squeeze(1).exp() * hyp_share[:, None]  # (B, M)
    return float(torch.where(columns, sums - ref_share[:, None], 0.0).abs().sum(1).max().detach())
