"""How a metric is trained: the choices, and which metrics and settings can be trained at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from twmd_registry.errors import SpecError, menu
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import Centering, Dtype, Idf, Output

if TYPE_CHECKING:  # the command line reads the names below for its help, and need not wait for the presets
    from twmd_registry.registry.spec import MetricSpec

TRAINABLE = tuple(name for name, metric in CATALOGUE.items() if metric.untrainable is None)
POPULATIONS = frozenset({Centering.BATCH, Centering.CORPUS})
"""Centerings by the mean of what is scored; in training that is the training batch."""


class Weights(StrEnum):
    """Which weights are trained: a LoRA adapter's, or all that the metric reads."""

    LORA = "lora"
    FULL = "full"


class Target(StrEnum):
    """What is fitted to the ratings: the score itself (``output``), or the mean of precision and recall."""

    OUTPUT = "output"
    MEAN = "mean"


class Loss(StrEnum):
    """What is made small.

    ``mse``: the mean squared error of a line on the score (TWMD paper, 6.2). ``pearson``: `MSE_SHARE` times that, less
    Pearson's r of scores and ratings within the batch; every batch then holds segments of one group of one data set (a
    language pair), as the agreement that is reported is a group's, too.
    """

    MSE = "mse"
    PEARSON = "pearson"


MSE_SHARE = 0.3
"""Of the mean squared error, beside a correlation of weight 1: what keeps scores of different groups on one scale."""
LEAST_CORRELATED = 3
"""Segments that a correlation needs: of two it is 1 or -1, whatever they are."""
RATES = {Weights.LORA: 5e-4, Weights.FULL: 5e-5}
"""Learning rates where none is given."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of a training run.

    Attributes:
        weights: What is trained.
        rank: Of the adapter.
        epochs: Passes over the training data.
        learning_rate: Highest rate, after the warm-up; None for that of `RATES`.
        batch: Segments per step.
        seed: Of the adapter's first weights, the order of segments and dropout.
        target: What is fitted.
        loss: What is made small.
        bf16: Whether the encoder's matrix products are done in bfloat16 while it is trained; weights, losses and every
            judgement stay float32.
        dropout: Share of hidden numbers and attention weights that a training step leaves out; None for what the
            model's configuration says.
        save_steps: Steps between two checkpoints; None for one per epoch.

    Raises:
        SpecError: A number that is not possible.
    """

    weights: Weights = Weights.LORA
    rank: int = 16
    epochs: int = 3
    learning_rate: float | None = None
    batch: int = 16
    seed: int = 12345
    target: Target = Target.OUTPUT
    loss: Loss = Loss.MSE
    bf16: bool = False
    dropout: float | None = None
    save_steps: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name in ("rank", "epochs", "batch", "save_steps"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise SpecError(f"{name}={value!r} is not possible: expected a whole number from 1.")
        if not 0 < self.rate < math.inf:
            raise SpecError(f"learning_rate={self.learning_rate!r} is not possible: expected a finite number above 0.")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise SpecError(f"dropout={self.dropout!r} is not possible: expected a number from 0 and below 1.")
        if self.loss is Loss.PEARSON and self.batch < LEAST_CORRELATED:
            raise SpecError(
                f"batch={self.batch} is not possible with loss=pearson: a correlation needs {LEAST_CORRELATED} "
                "segments."
            )

    @property
    def rate(self) -> float:
        """The learning rate that applies."""
        return RATES[self.weights] if self.learning_rate is None else self.learning_rate


def check_trainable(spec: MetricSpec, recipe: Recipe) -> None:
    """Refuse what cannot be trained.

    Args:
        spec: The metric, as it was asked for.
        recipe: How it is to be trained.

    Raises:
        SpecError: A metric without a trainable encoder (with the menu), or a key that means nothing in training; says
            why.
    """
    if spec.metric not in TRAINABLE:
        raise SpecError(
            f"{spec.metric} cannot be trained: {CATALOGUE[spec.metric].untrainable}; {menu(spec.metric, TRAINABLE)}."
        )
    if spec.centering_kind in POPULATIONS and recipe.batch == 1:
        raise SpecError(
            f"centering={spec.centering} with a training batch of 1 subtracts a segment's own mean from it, "
            "which is centering=sentence: "
            "train with a larger batch, or with centering=sentence or background."
        )
    if spec.idf in {Idf.CORPUS, Idf.REFERENCES}:
        raise SpecError(
            f"idf={spec.idf} counts over the texts that are scored, which a training batch does not stand for: "
            "use idf=background:HASH."
        )
    if spec.baseline is not None:
        raise SpecError(
            "a baseline belongs to the untrained metric: train without it, and fit one for the trained metric "
            "('twmd fit-baseline')."
        )
    if spec.dtype != Dtype.FLOAT32:
        raise SpecError(
            f"dtype={spec.dtype}: weights are trained in float32 (with --bf16, by products in bfloat16); give "
            "the dtype when you score."
        )
    if recipe.target is Target.MEAN and spec.output != Output.F1:
        sides = "has no sides" if spec.output is None else f"is asked for its {spec.output} (output={spec.output})"
        raise SpecError(f"target=mean fits the mean of precision and recall, and {spec.metric} {sides}: leave it out.")
    if spec.adapter is not None and recipe.weights is Weights.LORA:
        raise SpecError(
            f"adapter={spec.adapter}: an adapter cannot stand on another one; train without it, or train all "
            "weights (--full)."
        )
