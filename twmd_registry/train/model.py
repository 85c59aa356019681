"""A metric as a module whose weights are trained, through the stages that score.

``mse = mean (a sim(X, Y) + b - z)^2`` (TWMD paper, 6.2: the mean squared error of similarity and rating), or
`MSE_SHARE` times that less Pearson's r of sim and z. z is the rating, standardised within its data set; the scale a > 0
and the offset b are learned beside the encoder's weights, as ratings and similarities are in different units. Both are
thrown away afterwards: an increasing line changes no correlation, and the metric's score is ``sim``. a is kept above 0
so that higher stays closer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, mse_loss

from twmd_registry.encode.encoder import Encoder
from twmd_registry.encode.store import ReadingMode
from twmd_registry.engine.pairs import Segments, make_pairs
from twmd_registry.engine.pipeline import PipelineRun
from twmd_registry.engine.reduction import over_references
from twmd_registry.engine.token_selection import Job
from twmd_registry.models.arithmetic import exact_arithmetic
from twmd_registry.registry.names import Centering, Multiref
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.tensors import PRF
from twmd_registry.train.recipe import MSE_SHARE, Loss, Recipe, Target

LEAST_CORRELATION = 0.1
"""Of untrained similarities and ratings, as the line's start takes it: a line of no slope would pass no gradient on."""

TARGETS: dict[Target, Callable[[PRF, MetricSpec], Tensor]] = {
    Target.OUTPUT: lambda sides, spec: getattr(sides, spec.output or "precision"),
    Target.MEAN: lambda sides, _: (sides.precision + sides.recall) / 2,
}
"""From the sides of pairs to what is fitted; both are the score itself for a metric without sides."""


class TrainedMetric(nn.Module):
    """An encoder, a specification and a line.

    Attributes:
        network: The encoder's network.
        log_scale: Logarithm of the scale a.
        offset: The offset b.
    """

    def __init__(
        self, encoder: Encoder, job: Job, reading: ReadingMode, recipe: Recipe, *, batch_tokens: int | None = None
    ) -> None:
        """Put them together.

        Args:
            encoder: An encoder of its own: its weights will change.
            job: The applied specification, and what was fitted for it.
            reading: How long texts are read.
            recipe: What is fitted, and what is made small.
            batch_tokens: Most padded tokens in the encoder at once.
        """
        super().__init__()
        self.network: nn.Module = encoder.network
        if recipe.bf16:
            self.network.forward = self._rounding(self.network.forward, encoder.device.type)
        self.log_scale = nn.Parameter(torch.zeros((), dtype=torch.float32, device=encoder.device))
        self.offset = nn.Parameter(torch.zeros((), dtype=torch.float32, device=encoder.device))
        self._encoder, self._job, self._reading, self._recipe, self._batch_tokens = (
            encoder,
            job,
            reading,
            recipe,
            batch_tokens,
        )

    def _rounding(self, forward: Callable[..., Any], device: str) -> Callable[..., Any]:
        """Return the network's forward pass, in bfloat16 where it is trained."""

        def run(*args: Any, **settings: Any) -> Any:
            with torch.autocast(device, torch.bfloat16, enabled=self.training):
                return forward(*args, **settings)

        return run

    @property
    def _multiref(self) -> Multiref:
        return Multiref(self._job.spec.multiref or Multiref.MAX)

    def similarities(self, segments: Segments) -> Tensor:
        """Return the similarity of every segment, differentiable in the weights.

        Under ``centering=batch`` and ``corpus`` these segments are the population whose mean is subtracted, however
        many they are.

        Args:
            segments: B segments.

        Returns:
            Shape (B,); of `Target.OUTPUT` what a scorer gives to the same segments as one centering batch.
        """
        spec, pairs = self._job.spec, make_pairs(segments)
        if spec.centering_kind is Centering.BATCH:
            spec = spec.replace(centering_size=len(segments.predictions))
        run = PipelineRun(
            self._encoder, [self._job._replace(spec=spec)], pairs, self._reading, batch_tokens=self._batch_tokens
        )
        fitted = torch.cat(
            [TARGETS[self._recipe.target](one, spec) for _, sides in run.align() for one in sides.values()]
        )  # (pairs,)
        return torch.segment_reduce(
            fitted, self._multiref.value, lengths=torch.from_numpy(pairs.counts).to(fitted.device)
        )

    def score(self, segments: Segments) -> np.ndarray:
        """*The* scores of some segments, as a scorer of the trained metric gives them; shape (segments,). Leaves
        evaluation mode on.
        """
        self.eval()
        pairs = make_pairs(segments)
        with torch.inference_mode(), exact_arithmetic():
            (found,) = PipelineRun(
                self._encoder, [self._job], pairs, self._reading, batch_tokens=self._batch_tokens
            ).score()
        return over_references(found.chosen(self._job.spec.output), pairs.counts, self._multiref)

    def forward(self, predictions: list[str], references: list[list[str]], targets: Tensor) -> dict[str, Tensor]:
        """Return the loss of a batch; `targets` has the shape (B,)."""
        found = self.similarities(Segments(predictions, references))  # (B,)
        wanted = targets.to(found.dtype)
        mse = mse_loss(self.log_scale.exp() * found + self.offset, wanted)
        if self._recipe.loss is Loss.MSE:
            return {"loss": mse}
        r = cosine_similarity(found - found.mean(), wanted - wanted.mean(), dim=0)  # 0 where either does not vary
        return {"loss": MSE_SHARE * mse - r}

    def start_line(self, similarities: np.ndarray, targets: np.ndarray) -> None:
        """Set the line to the least-squares fit of some ratings: ``a = r sd(z) / sd(sim)``, r not below
        `LEAST_CORRELATION`.

        Args:
            similarities: Of the untrained model; shape (N,).
            targets: Standardised ratings; shape (N,).
        """
        sd, spread = float(similarities.std()), float(targets.std())
        r = (
            float(np.mean((similarities - similarities.mean()) * (targets - targets.mean()))) / (sd * spread)
            if sd and spread
            else 0.0
        )
        scale = max(r, LEAST_CORRELATION) * spread / sd if sd and spread else 1.0
        with torch.no_grad():
            self.log_scale.fill_(math.log(scale))
            self.offset.fill_(float(targets.mean()) - scale * float(similarities.mean()))

    def error(self, similarities: np.ndarray, targets: np.ndarray) -> float:
        """Return the mean squared error of the line on similarities; arguments as for `start_line`."""
        scale, offset = math.exp(float(self.log_scale.detach())), float(self.offset.detach())
        return float(np.mean((scale * similarities + offset - targets) ** 2))

    def trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Return the weights that change, with their names."""
        return ((name, weight) for name, weight in self.named_parameters() if weight.requires_grad)

    def state_dict(self, *_args: Any, **_settings: Any) -> dict[str, Tensor]:  # type: ignore[override]
        """Return the weights that change, and no others: a checkpoint of an adapter holds no copy of the encoder."""
        return {name: weight.detach() for name, weight in self.trained()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:  # noqa: FBT002
        """Load the weights that change; those that do not are not missed.

        Raises:
            RuntimeError: With `strict`, other weights than those that change.
        """
        if strict and (odd := set(state_dict) ^ {name for name, _ in self.trained()}):
            raise RuntimeError(f"these weights are not those that are trained: {', '.join(sorted(odd))}")
        found = super().load_state_dict(state_dict, strict=False, assign=assign)
        own = {name for name, _ in self.trained()}
        found.missing_keys[:] = [name for name in found.missing_keys if name in own]
        return found
