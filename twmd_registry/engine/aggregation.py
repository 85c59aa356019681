"""Aggregate a token's vectors from several layers into one (MoverScore paper, section 3.1 and A.2)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from twmd_registry.registry.values import Aggregation

STEP, ENOUGH, MAX_ROUNDS = 1.0, 1e-4, 50
"""Constants of routing: alpha, the change of the loss below which a token has converged, the maximum number of
rounds.
"""


def aggregate(layers: Tensor, how: Aggregation) -> Tensor:
    """Combine the unit vectors of every token, (T, L, D), into one of any norm: (T, D), or (T, L D) for ``concat``, or
    (T, number of powers times D) for ``pmeans``.
    """
    return AGGREGATIONS[how.kind](layers, how)


def _power_mean(layers: Tensor, p: float) -> Tensor:
    """Return the power mean over layers; an odd root keeps the sign. (T, L, D) to (T, D)."""
    if math.isinf(p):
        return layers.amin(1) if p < 0 else layers.amax(1)
    if p == 1:
        return layers.mean(1)
    # Powers of small numbers would underflow.
    largest = layers.abs().amax(1).clamp(min=torch.finfo(layers.dtype).tiny)  # (T, D)
    mean = (layers / largest[:, None]).pow(int(p)).mean(1)
    return largest * mean.sign() * mean.abs().pow(1 / p)


def _routing(layers: Tensor, how: Aggregation) -> Tensor:
    """Cluster the layers' vectors of every token around one: mean shift with routing coefficients (supplement,
    Algorithm 1).

    d is the squared distance, and the mean over layers is the start. Coefficients are per token, so a token's vector
    does not depend on other tokens. If no layer's vector is near (Epanechnikov), a token keeps its current vector.
    """
    kernel = KERNELS[str(how.kernel)]
    means = layers.mean(1)  # (T, D)
    gamma = torch.zeros_like(layers[:, :, 0])  # (T, L)
    loss = torch.full_like(gamma[:, 0], float("inf"))
    moving = torch.arange(len(layers), device=layers.device)
    for _ in range(MAX_ROUNDS):
        gamma = gamma.softmax(1)
        z, v = layers[moving], means[moving]
        _, slope = kernel((z - v[:, None]).square().sum(2))  # (T, L)
        total = slope.sum(1, keepdim=True)
        mean = (gamma * slope)[:, None].bmm(z)[:, 0] / total.clamp(min=torch.finfo(z.dtype).tiny)
        v = torch.where(total > 0, mean, v)
        means = means.index_copy(0, moving, v)
        near, _ = kernel((z - v[:, None]).square().sum(2))  # (T, L)
        gamma = gamma + STEP * near
        previous, loss = loss, (gamma * near).sum(1).log()
        still = ~((loss - previous).abs() < ENOUGH) & (loss > -float("inf"))
        if not bool(still.any()):
            break
        moving, gamma, loss = moving[still], gamma[still], loss[still]
    return means


def _gaussian(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the kernel k(x) = exp(-x / 2), and -k'(x) up to a constant factor; same shape as `x`."""
    value = torch.exp(-x / 2)
    return value, value


def _epanechnikov(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the kernel k(x) = max(0, 1 - x), and -k'(x); same shape as `x`."""
    return (1 - x).clamp(min=0), (x < 1).to(x.dtype)


KERNELS: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {"gaussian": _gaussian, "epanechnikov": _epanechnikov}

AGGREGATIONS: dict[str, Callable[[Tensor, Aggregation], Tensor]] = {
    "mean": lambda layers, _: layers.mean(1),
    "concat": lambda layers, _: layers.flatten(1),
    "pmeans": lambda layers, how: torch.cat([_power_mean(layers, p) for p in how.powers], dim=1),
    "routing": _routing,
}
