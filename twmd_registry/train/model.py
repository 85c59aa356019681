"""A metric as a module with trainable weights, which runs the same stages as scoring.

The loss is ``mse = mean (a sim(X, Y) + b - z)^2`` (TWMD paper, 6.2) with z the standardised rating, or `MSE_SHARE`
times that minus Pearson's r. a > 0 and b are not saved.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cosine_similarity, mse_loss

from twmd_registry.encode.encoder import Encoder
from twmd_registry.engine.pairs import Pairs, Segments, make_pairs
from twmd_registry.engine.pipeline import PipelineRun
from twmd_registry.engine.result import SIDE
from twmd_registry.engine.token_vectors import TokenView
from twmd_registry.errors import ModelError, SpecError, missing_extra
from twmd_registry.messages import warn
from twmd_registry.models.inference import exact_arithmetic, multiplies
from twmd_registry.registry.metric_spec import AppliedSpec
from twmd_registry.registry.names import Multiref
from twmd_registry.train.recipe import MSE_SHARE, Recipe, Target

MIN_CORRELATION = 0.1
"""Lower bound of r in `TrainedMetric.start_line`: a line without slope would pass no gradient on."""
LORA_DROPOUT = 0.05
FUSED_ATTENTION = 256
"""Minimum tokens of a text for torch's fused attention in bfloat16 on CPUs. Its gradient takes as long for 16 tokens as
for 256, up to 14 times as long as with separate products. From 256 tokens on it needs less memory.
"""

TARGETS: dict[Target, Callable[[Tensor, AppliedSpec], Tensor]] = {
    "output": lambda sides, spec: sides[SIDE[spec.output]],
    "mean": lambda sides, _: (sides[0] + sides[1]) / 2,
}
"""Value to fit, from precision, recall and F1 of pairs; the first is the score of a metric without sides."""


class TrainedMetric(nn.Module):
    """An encoder, a specification and a line, with ``log_scale`` = log a and ``offset`` = b."""

    def __init__(
        self, encoder: Encoder, spec: AppliedSpec, view: TokenView, recipe: Recipe, *, batch_tokens: int | None = None
    ) -> None:
        """Combine an applied specification, its view, and a separate encoder whose weights will change."""
        super().__init__()
        self.network: nn.Module = encoder.network
        if recipe.bf16:
            train_in_bfloat16(self.network, encoder.device.type)
        self.log_scale = nn.Parameter(torch.zeros((), dtype=torch.float32, device=encoder.device))
        self.offset = nn.Parameter(torch.zeros((), dtype=torch.float32, device=encoder.device))
        self._encoder, self._spec, self._view, self._recipe = encoder, spec, view, recipe
        self._batch_tokens = batch_tokens
        self._multiref = cast("Multiref", spec.multiref)

    def _run(self, pairs: Pairs, spec: AppliedSpec) -> PipelineRun:
        views = {spec: replace(self._view, centering=spec.centering)}
        return PipelineRun(self._encoder, views, pairs, batch_tokens=self._batch_tokens)

    def similarities(self, segments: Segments) -> Tensor:
        """Return differentiable similarities of segments, treated as one centering batch; shape (segments,)."""
        spec, pairs = self._spec, make_pairs(segments)
        if spec.centering.kind == "batch":
            spec = spec.replace(centering_size=len(segments.predictions))
        target = TARGETS[self._recipe.target]
        runs = self._run(pairs, spec).score_chunks()
        fitted = torch.cat([target(side, spec) for chunk in runs for side in chunk.sides.values()])  # (pairs,)
        counts = torch.from_numpy(pairs.counts).to(fitted.device)
        return torch.segment_reduce(fitted, self._multiref, lengths=counts)

    def score(self, segments: Segments) -> np.ndarray:
        """Return the scores of segments, as by a scorer of the trained metric; shape (segments,)."""
        self.eval()
        pairs, spec = make_pairs(segments), self._spec
        with torch.inference_mode(), exact_arithmetic():
            sides = [chunk.sides[spec] for chunk in self._run(pairs, spec).score_chunks()]
        scores = torch.cat(sides, dim=1)[SIDE[spec.output]].to("cpu", torch.float64)  # (pairs,)
        return torch.segment_reduce(scores, self._multiref, lengths=torch.from_numpy(pairs.counts)).numpy()

    def forward(self, predictions: list[str], references: list[list[str]], targets: Tensor) -> dict[str, Tensor]:
        """Return the loss of a batch; `targets` has shape (B,)."""
        similarities = self.similarities(Segments(predictions, references))  # (B,)
        targets = targets.to(similarities.dtype)
        mse = mse_loss(self.log_scale.exp() * similarities + self.offset, targets)
        if self._recipe.loss == "mse":
            return {"loss": mse}
        deviations = similarities - similarities.mean(), targets - targets.mean()
        r = cosine_similarity(*deviations, dim=0)  # 0 if either is constant
        return {"loss": MSE_SHARE * mse - r}

    def start_line(self, similarities: np.ndarray, targets: np.ndarray) -> None:
        """Set the line to the least-squares fit ``a = r sd(z) / sd(sim)``, with r at least `MIN_CORRELATION`."""
        scale, sd, spread = 1.0, float(similarities.std()), float(targets.std())
        if sd and spread:
            covariance = float(np.mean((similarities - similarities.mean()) * (targets - targets.mean())))
            scale = max(covariance / (sd * spread), MIN_CORRELATION) * spread / sd
        with torch.no_grad():
            self.log_scale.fill_(math.log(scale))
            self.offset.fill_(float(targets.mean()) - scale * float(similarities.mean()))

    def error(self, similarities: np.ndarray, targets: np.ndarray) -> float:
        """Return the mean squared error of the line; arguments as for `start_line`."""
        scale, offset = math.exp(float(self.log_scale.detach())), float(self.offset.detach())
        return float(np.mean((scale * similarities + offset - targets) ** 2))

    def trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Return the trained weights with their names."""
        return ((name, weight) for name, weight in self.named_parameters() if weight.requires_grad)

    def state_dict(self, *_args: Any, **_settings: Any) -> dict[str, Tensor]:  # type: ignore[override]
        """Return only the trained weights, so an adapter's checkpoint has no copy of the encoder."""
        return {name: weight.detach() for name, weight in self.trained()}

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any],
        strict: bool = True,  # noqa: FBT002 (torch's signature)
        assign: bool = False,  # noqa: FBT002
    ) -> Any:
        """Load trained weights. The encoder's, which no checkpoint has, do not count as missing."""
        del strict
        result = super().load_state_dict(state_dict, strict=False, assign=assign)
        trained = {name for name, _ in self.trained()}
        result.missing_keys[:] = [name for name in result.missing_keys if name in trained]
        return result


def require_training() -> None:
    """Raise MissingExtraError without `peft` and `accelerate`."""
    if not all(map(importlib.util.find_spec, ("accelerate", "peft"))):
        raise missing_extra("training needs more packages", "train")


def add_lora(network: Any, rank: int, modules: Sequence[str] | str, *, head: bool = False) -> Any:
    """Add a LoRA adapter to linear layers and freeze all other weights except a `head` above them.

    Args:
        network: The network.
        rank: The adapter's rank.
        modules: The layers' names, or PEFT's name for several.
        head: Whether there is a regression head.

    Returns:
        The wrapped network.

    Raises:
        SpecError: The rank exceeds the model's width.
    """
    if rank > (width := network.config.hidden_size):
        raise SpecError(f"rank {rank} exceeds the model's width: choose at most {width}.")
    from peft import LoraConfig, TaskType, get_peft_model

    config = LoraConfig(
        task_type=TaskType.SEQ_CLS if head else TaskType.FEATURE_EXTRACTION,
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=LORA_DROPOUT,
        target_modules=modules if isinstance(modules, str) else list(modules),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # as in `twmd_registry.models.files.merge`
        return get_peft_model(network, config)


def train_in_bfloat16(network: nn.Module, device: str) -> None:
    """Run a network's matrix products in bfloat16 in training mode; weights stay in float32.

    A CPU that lacks bfloat16 trains in float32, with a warning.
    """
    if device == "cpu" and not multiplies(torch.bfloat16):
        warn("bf16 has no effect: this CPU computes bfloat16 more slowly than float32.")
        return
    forward = network.forward

    def run(*args: Any, **inputs: Any) -> Any:
        slow = network.training and device == "cpu" and inputs["input_ids"].shape[1] < FUSED_ATTENTION
        with (
            torch.autocast(device, torch.bfloat16, enabled=network.training),
            sdpa_kernel(SDPBackend.MATH) if slow else nullcontext(),
        ):
            return forward(*args, **inputs)

    network.forward = run


def set_dropout(network: nn.Module, share: float) -> None:
    """Set a network's dropout rate for hidden states and attention weights; an adapter has its own."""
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = share
        for name, value in list(vars(module).items()):  # some attention modules store the rate as a number
            if isinstance(value, float) and "dropout" in name and "layer" not in name:
                setattr(module, name, share)


def lora_modules(encoder: Encoder, layer: int) -> list[str]:
    """Return the linear layers on which hidden state `layer` depends, at least one."""
    from transformers.pytorch_utils import Conv1D

    unused = {id(module) for module in _never_run(encoder, layer)}
    named = encoder.network.named_modules()
    names = [name for name, module in named if isinstance(module, (nn.Linear, Conv1D)) and id(module) not in unused]
    if not names:
        hint = "an adapter has nothing to change"
        raise SpecError(f"layer={layer} of {encoder.files.name} depends on no linear layer: {hint}.")
    return names


def unfreeze(encoder: Encoder, layer: int) -> None:
    """Unfreeze the weights on which hidden state `layer` depends, and freeze the others."""
    if getattr(encoder.network.config, "is_encoder_decoder", False):
        reason = "the encoder of an encoder-decoder cannot be saved alone"
        raise ModelError(f"{encoder.files.name}: {reason}; train an adapter instead.")
    encoder.network.requires_grad_(True)  # noqa: FBT003 (torch's own signature)
    for module in _never_run(encoder, layer):
        module.requires_grad_(False)  # noqa: FBT003


def _never_run(encoder: Encoder, layer: int) -> list[nn.Module]:
    """Return the modules on which hidden state `layer` does not depend: the blocks above it, and a pooler."""
    above = [] if encoder.blocks is None else list(encoder.blocks[layer:])
    poolers = [module for name, module in encoder.network.named_modules() if name.rpartition(".")[2] == "pooler"]
    return [inner for module in [*above, *poolers] for inner in module.modules()]
