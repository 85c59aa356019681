"""``twmd``: tempered balanced transport by Sinkhorn sweeps in the log domain."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor

from twmd_registry.messages import warn
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.names import CONVERGED
from twmd_registry.tensors import MASKED, PaddedTokens, masked_log_softmax, masked_logsumexp

TOLERANCE = 1e-5
"""Largest total deviation of a converged plan's column sums from the marginals."""
CHECK_EVERY = 50
MAX_CHECKS = 400
"""Sweeps between convergence checks, and checks after which a pair is returned unconverged."""
COOLING, WARM_SWEEPS = 0.7, 10
"""Annealing for ``iterations=converged``: factor of the temperature, and sweeps at each temperature. It needs fewer
sweeps to the same fixed point.
"""


def sinkhorn(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Score the tempered transport plan (TWMD paper, Eq. 5 and 6).

    The plan pi has a row per hypothesis token (weight a_i) and a column per reference token (weight b_j). Without idf
    all weights are 1. It starts as ``a_i b_j exp(+S_ij/T)``; the paper prints ``-S/T`` but maximises similarity. Each
    sweep scales every column to its share ``b_j / sum b``, then every row to ``a_i / sum a``. So the row sums are
    exact after the last sweep. A token of weight 2 is equivalent to two tokens of weight 1.

    ``expected`` is ``C = <pi, S>``. ``entropic`` adds the plan's entropy per token, ``C = <pi, S> - T mean_i sum_j p_ij
    log p_ij``, where p is pi with rows that sum to one. Without the column constraint this is Eq. 7.
    ``iterations=converged`` sweeps to the fixed point in float64, and warns if it is not reached.
    """
    present, log_plan = _log_plan(s, hyp, ref, spec)
    gain = s
    if spec.objective == "entropic":
        # A partner of weight w counts as w partners of weight 1, each with a share of 1 / w.
        gain = s - cast("float", spec.temperature) * (log_plan - ref.log_weights[:, None, :])
    return hyp.mean((log_plan.exp() * torch.where(present, gain, 0.0)).sum(2))


def sinkhorn_plan(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Return the tempered plan, whose rows sum to the hypothesis tokens' shares; shape (B, N, M)."""
    return hyp.shares[:, :, None] * _log_plan(s, hyp, ref, spec)[1].exp()


def _log_plan(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> tuple[Tensor, Tensor]:
    """Return the cells of positive weight, and log p there; shape (B, N, M) each.

    Rows of p sum to one. Other cells are -inf.
    """
    present = (hyp.weights > 0)[:, :, None] & (ref.weights > 0)[:, None, :]
    temperature = cast("float", spec.temperature)
    if spec.iterations == CONVERGED:
        log_plan = _fixed_point(s.to(torch.float64), hyp, ref, temperature).to(s.dtype)
        return present, torch.where(present, log_plan, MASKED)
    logits, log_a, log_b = s / temperature, hyp.log_weights[:, :, None], ref.log_weights[:, None, :]
    # Logarithms of the row and column factors.
    log_rows, log_columns = torch.zeros_like(s[:, :, :1]), torch.zeros_like(s[:, :1, :])  # (B, N, 1), (B, 1, M)
    for sweep in range(cast("int", spec.iterations)):
        if sweep:
            log_rows = -masked_logsumexp(logits + log_columns, present, dim=2)
        log_columns = log_b - masked_logsumexp(logits + (log_rows + log_a), present, dim=1)
    return present, masked_log_softmax(logits + log_columns, present)  # the last sweep's row step


def _fixed_point(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, temperature: float) -> Tensor:
    """Sweep until the column sums converge; return log p, whose row sums are exact.

    A column's price is T times the logarithm of its factor. Being in units of similarity, the prices at one temperature
    are a good start for the next lower one. A pair stops by its own error, so its neighbours do not change its plan.
    """
    prices = torch.zeros_like(s[:, :1, :])  # (B, 1, M)
    warm = max(temperature, 1.0)
    while warm > temperature:
        for _ in range(WARM_SWEEPS):
            prices = _sweep(s, hyp, ref, prices, warm).prices
        warm *= COOLING
    waiting = torch.arange(len(s), device=s.device)
    done: list[tuple[Tensor, Tensor]] = []
    for check in range(1, MAX_CHECKS + 1):
        for _ in range(CHECK_EVERY):
            log_plan, prices, error = _sweep(s, hyp, ref, prices, temperature)
        stop = error <= TOLERANCE if check < MAX_CHECKS else torch.ones_like(error, dtype=torch.bool)
        done.append((waiting[stop], log_plan[stop]))
        if bool(stop.all()):
            break
        waiting, s, prices = waiting[~stop], s[~stop], prices[~stop]
        hyp, ref = (PaddedTokens(side.mask[~stop], side.weights[~stop]) for side in (hyp, ref))
    worst = float(error.max().detach())
    if worst > TOLERANCE:
        warn(
            f"twmd did not converge for {len(error)} pairs at T={temperature}: after "
            f"{MAX_CHECKS * CHECK_EVERY} sweeps the marginals are off by up to {worst:.1e}. Raise the temperature."
        )
    order = torch.argsort(torch.cat([index for index, _ in done]))
    return torch.cat([plan for _, plan in done])[order]


class _Sweep(NamedTuple):
    """The result of a sweep."""

    log_plan: Tensor  # log p with exact row sums; shape (B, N, M)
    prices: Tensor  # The next column prices; shape (B, 1, M)
    error: Tensor  # Total deviation of pi's column sums from the reference tokens' shares; shape (B,)


def _sweep(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, prices: Tensor, temperature: float) -> _Sweep:
    """Do one sweep, rows last."""
    present = (hyp.weights > 0)[:, :, None] & (ref.weights > 0)[:, None, :]
    log_plan = (s + prices) / temperature
    log_plan = log_plan - masked_logsumexp(log_plan, present, dim=2)  # (B, N, M)
    log_sums = masked_logsumexp(log_plan + hyp.log_weights[:, :, None], present, dim=1)  # (B, 1, M), of p = N pi
    n, m = hyp.weights.sum(1).to(s.dtype), ref.weights.sum(1).to(s.dtype)  # (B,)
    target = ref.weights / m[:, None]  # (B, M)
    off = torch.where(present.any(1), log_sums.squeeze(1).exp() / n[:, None] - target, 0.0)  # (B, M)
    missing = torch.log(n / m)[:, None, None] - log_sums + ref.log_weights[:, None, :]
    return _Sweep(log_plan, prices + temperature * missing, off.abs().sum(1))
