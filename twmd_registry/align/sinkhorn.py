"""``twmd``: tempered balanced transport by Sinkhorn sweeps in the log domain."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from twmd_registry.errors import warn
from twmd_registry.registry.names import CONVERGED
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.tensors import MASKED, PaddedTokens, chunks, masked_log_softmax, masked_logsumexp

TOLERANCE = 1e-5
"""A plan has converged when its column sums differ from the marginals by at most this in total."""
CHECK_EVERY = 50
MAX_CHECKS = 400
"""Sweeps between two convergence checks, and checks after which a pair is returned without convergence."""
COOLING, WARM_SWEEPS = 0.7, 10
"""With ``iterations=converged`` the temperature is annealed: multiplied by this factor after so many sweeps, for fewer
sweeps to the same fixed point.
"""


def sinkhorn(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Score the tempered transport plan (TWMD paper, Eq. 5 and 6).

    The plan starts as ``exp(+S/T)`` (the paper prints ``-S/T`` but maximises similarity). One sweep makes every
    reference token's weights sum to one and then every hypothesis token's; after the last sweep ``pi = exp(L)/N``,
    whose row sums are exact. ``expected``: ``C = <pi, S>``. ``entropic``: ``C`` adds the tempered plan's entropy per
    token, ``C = <pi, S> - T mean_i sum_j p_ij log p_ij`` with ``p = N pi`` (so that without the column constraint it
    is Eq. 7). With weights a and b the plan starts as ``a_i b_j exp(S_ij/T)`` and its rows and columns sum to the
    weights: a token of weight 2 is two tokens of weight 1.

    Args:
        s: Similarities; shape (B, N, M).
        hyp: Hypothesis tokens.
        ref: Reference tokens.
        spec: T, the number of sweeps (``converged``: to the fixed point, in float64) and the objective.

    Returns:
        C, shape (B,), in the dtype of `s`.

    Warns:
        TwmdWarning: The fixed point was not reached; the message holds the marginal error.
    """
    gains, temperature = [], spec.temperature or 1.0
    for slab, present, log_plan in _log_plans(s, hyp, ref, spec):
        gain = torch.where(present, s[:, slab], 0.0)  # (B, N of the slab, M)
        if spec.objective == "entropic":
            # A partner of weight w is w partners of weight 1, each with a share of 1 / w.
            log_cells = log_plan - ref.log_weights[:, None, :]
            gain = torch.where(present, s[:, slab] - temperature * log_cells, 0.0)
        gains.append((log_plan.exp() * gain).sum(2))
    return hyp.mean(torch.cat(gains, dim=1))


def sinkhorn_plan(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Return the tempered plan; shape (B, N, M); its rows sum to the hypothesis tokens' shares."""
    log_plan = torch.cat([log_plan for _, _, log_plan in _log_plans(s, hyp, ref, spec)], dim=1)
    return hyp.shares[:, :, None] * log_plan.exp()


def _log_plans(
    s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield slabs of hypothesis tokens with their cells that take part, and log p there, of which exp sums to one in
    every row; -inf in other cells.
    """
    present = (hyp.weights > 0)[:, :, None] & (ref.weights > 0)[:, None, :]  # (B, N, M)
    temperature = spec.temperature or 1.0
    if spec.iterations == CONVERGED:
        log_plan = _fixed_point(s.to(torch.float64), hyp, ref, temperature).to(s.dtype)
        yield slice(None), present, torch.where(present, log_plan, MASKED)
        return
    log_a, log_b = hyp.log_weights[:, :, None], ref.log_weights[:, None, :]
    rows, columns = torch.zeros_like(s[:, :, :1]), torch.zeros_like(s[:, :1, :])  # potentials, (B, N, 1), (B, 1, M)

    def balance(other: Tensor, dim: int) -> Tensor:
        """Return ``-log sum exp(S/T + other)`` along `dim`, kept with length 1: added, it makes sums over `dim` one."""
        parts = []
        for slab in chunks(s, dim=3 - dim):
            index = (slice(None), slab) if dim == 2 else (slice(None), slice(None), slab)
            parts.append(-masked_logsumexp(s[index] / temperature + other, present[index], dim=dim))
        return torch.cat(parts, dim=3 - dim)

    for sweep in range(int(spec.iterations or 1)):
        if sweep:
            rows = balance(columns, dim=2)
        columns = balance(rows + log_a, dim=1) + log_b
    for slab in chunks(s, dim=1):  # the row step of the last sweep
        here = present[:, slab]
        yield slab, here, masked_log_softmax(s[:, slab] / temperature + columns, here)


def _fixed_point(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, temperature: float) -> Tensor:
    """Sweep until the column sums converge, and return log p, whose row sums are exact.

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
    for check in range(1, MAX_CHECKS + 1):
        for _ in range(CHECK_EVERY):
            log_plan, columns, error = _sweep(s, hyp, ref, columns, temperature)
        stop = error <= TOLERANCE if check < MAX_CHECKS else torch.ones_like(error, dtype=torch.bool)
        done.append((waiting[stop], log_plan[stop]))
        if bool(stop.all()):
            break
        waiting, s, columns = waiting[~stop], s[~stop], columns[~stop]
        hyp, ref = (PaddedTokens(side.mask[~stop], side.weights[~stop]) for side in (hyp, ref))
    worst = float(error.max().detach())
    if worst > TOLERANCE:
        warn(
            f"twmd did not converge for {len(error)} pairs at T={temperature}: after "
            f"{MAX_CHECKS * CHECK_EVERY} sweeps the marginals are off by up to {worst:.1e}. Raise the temperature."
        )
    order = torch.argsort(torch.cat([index for index, _ in done]))
    return torch.cat([plan for _, plan in done])[order]


def _sweep(
    s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, columns: Tensor, temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Do one sweep, rows last: return log p with exact row sums (B, N, M), the next column potential (B, 1, M), and by
    how much the column sums of pi differ from the reference tokens' shares in total (B,).
    """
    present = (hyp.weights > 0)[:, :, None] & (ref.weights > 0)[:, None, :]
    log_plan = (s + columns) / temperature
    log_plan = log_plan - masked_logsumexp(log_plan, present, dim=2)  # (B, N, M)
    log_sums = masked_logsumexp(log_plan + hyp.log_weights[:, :, None], present, dim=1)  # (B, 1, M), of p = N pi
    m, n = hyp.weights.sum(1).to(s.dtype), ref.weights.sum(1).to(s.dtype)  # (B,)
    target = ref.weights / n[:, None]  # (B, M)
    off = torch.where(present.any(1), log_sums.squeeze(1).exp() / m[:, None] - target, 0.0)  # (B, M)
    missing = torch.log(m / n)[:, None, None] - log_sums + ref.log_weights[:, None, :]
    return log_plan, columns + temperature * missing, off.abs().sum(1)
