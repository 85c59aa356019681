"""Linear layers on CPUs by oneDNN: the same arithmetic as torch's own choice, in another order, with weights laid out
once.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from twmd_registry.models.arithmetic import keep_exact

X86 = ("x86_64", "amd64")
OPERATORS = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")


class OneDnnLinear(nn.Linear):
    """``nn.Linear`` that multiplies by oneDNN outside of training.

    torch multiplies float32 by MKL, which on two cores of an AMD EPYC reaches 180 billion operations a second where
    oneDNN
    reaches 400. oneDNN wants weights in an order of its own, which torch makes anew in every product, bfloat16's too;
    within
    `onednn_layout` it is made once. Parameters and results are those of ``nn.Linear``, but for the order of sums.
    """

    keeps = False
    kept: Tensor | None = None

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's own signature)
        """Products of vectors and weights; shape (..., D) to (..., E)."""
        if (
            torch.is_grad_enabled()
            or not torch.backends.mkldnn.enabled
            or input.device.type != "cpu"
            or input.dtype != self.weight.dtype
            or not multiplies(input.dtype)
        ):
            return super().forward(input)
        keep_exact()
        product: Tensor = torch.ops.mkldnn._linear_pointwise(input, self._weights(input), self.bias, "none", [], "")  # noqa: SLF001 (torch.compile's own)
        return product

    def _weights(self, input: Tensor) -> Tensor:  # noqa: A002 (as above)
        """The weights, in oneDNN's order where it is kept."""
        if self.keeps and self.kept is None:
            self.kept = torch.ops.mkldnn._reorder_linear_weight(self.weight, input.shape[:-1].numel())  # noqa: SLF001 (as above)
        return self.weight if self.kept is None else self.kept


@contextlib.contextmanager
def onednn_layout(network: nn.Module) -> Iterator[None]:
    """Keep the weights of a network's linear layers in oneDNN's order, from a layer's first product on until the end.

    For many batches in a row, while nobody changes the weights: the copy takes as much memory as they do.
    """
    layers = [module for module in network.modules() if isinstance(module, OneDnnLinear)]
    for layer in layers:
        layer.keeps = True
    try:
        yield
    finally:
        for layer in layers:
            layer.keeps, layer.kept = False, None


def multiplies(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies a number format well on this CPU."""
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # noqa: SLF001 (as above)
    return dtype == torch.float32


def has_onednn() -> bool:
    """Whether this torch has oneDNN for this CPU."""
    built = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return built and platform.machine().lower() in X86 and all(hasattr(torch.ops.mkldnn, name) for name in OPERATORS)


def quicken(network: nn.Module) -> None:
    """Let a network's linear layers multiply by oneDNN, where this torch has it."""
    if not has_onednn():
        return
    for module in network.modules():
        if type(module) is nn.Linear:
            module.__class__ = OneDnnLinear
