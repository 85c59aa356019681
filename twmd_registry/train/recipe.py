"""The settings of training, and which metrics can be trained by them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from twmd_registry.errors import SpecError
from twmd_registry.messages import menu
from twmd_registry.registry.metrics import CATALOGUE

if TYPE_CHECKING:  # the command line imports the names below for its help text, without the presets
    from twmd_registry.registry.metric_spec import MetricSpec

TRAINABLE = tuple(name for name, metric in CATALOGUE.items() if metric.untrainable is None)
POPULATIONS = frozenset({"batch", "corpus"})
"""Centerings by the mean of the scored texts; in training these are the batch."""

Target = Literal["output", "mean"]
"""The value that is fitted to the ratings: the score (``output``), or the mean of precision and recall."""
Loss = Literal["mse", "pearson"]
"""``mse``: the mean squared error of a line on the score (TWMD paper, 6.2). ``pearson``: `MSE_SHARE` times that, less
Pearson's r within the batch, which then holds a single group (a language pair) of a single data set.
"""

MSE_SHARE = 0.3
"""Weight of the mean squared error beside a correlation of weight 1; it keeps all groups on the same scale."""
MIN_CORRELATED = 3
"""Segments that a correlation needs; of two it is always 1 or -1."""
LORA_RATE, FULL_RATE = 5e-4, 5e-5
"""Default learning rates, of an adapter and of all weights."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of a training run; raises SpecError for an impossible number.

    `full` trains all weights that the metric reads, and no LoRA adapter; `bf16` computes products of the encoder in
    bfloat16. None stands for the default rate of either, the model's own dropout, and checkpoints after epochs alone.
    """

    full: bool = False
    rank: int = 16
    epochs: int = 3
    learning_rate: float | None = None
    batch: int = 16
    seed: int = 12345
    target: Target = "output"
    loss: Loss = "mse"
    bf16: bool = False
    dropout: float | None = None
    save_steps: int | None = None

    def __post_init__(self) -> None:
        """Refuse impossible numbers."""
        for name in ("rank", "epochs", "batch", "save_steps"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise SpecError(f"{name}={value!r} is not possible: expected a whole number from 1.")
        if not 0 < self.rate < math.inf:
            raise SpecError(f"learning_rate={self.learning_rate!r} is not possible: expected a finite number above 0.")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise SpecError(f"dropout={self.dropout!r} is not possible: expected a number from 0 and below 1.")
        if self.loss == "pearson" and self.batch < MIN_CORRELATED:
            need = f"a correlation needs {MIN_CORRELATED} segments"
            raise SpecError(f"batch={self.batch} is not possible with loss=pearson: {need}.")

    @property
    def rate(self) -> float:
        """The learning rate that applies."""
        if self.learning_rate is not None:
            return self.learning_rate
        return FULL_RATE if self.full else LORA_RATE


def check_trainable(spec: MetricSpec, recipe: Recipe) -> None:
    """Refuse a requested metric that has no trainable encoder, or a key of it that has no meaning in training."""
    metric, problem = spec.metric, ""
    if metric not in TRAINABLE:
        problem = f"{metric} cannot be trained: {CATALOGUE[metric].untrainable}; {menu(metric, TRAINABLE)}"
    elif spec.centering.kind in POPULATIONS and recipe.batch == 1:
        problem = f"centering={spec.centering} with a training batch of 1 subtracts a segment's own mean from it"
    elif spec.idf is not None and spec.idf.is_counted:
        problem = f"idf={spec.idf} counts over the texts that are scored: use idf=background:HASH"
    elif spec.against == "both" or len(spec.centering.means) > 1:
        problem = "train one comparison at a time, with one mean vector: against=source or reference"
    elif spec.baseline is not None:
        problem = "a baseline belongs to the untrained metric: fit one for the trained metric ('twmd fit baseline')"
    elif spec.dtype != "float32":
        problem = f"dtype={spec.dtype}: weights are trained in float32; give the dtype when you score"
    elif recipe.target == "mean" and spec.output != "f1":
        sides = "has no sides" if spec.output is None else f"is asked for its {spec.output} (output={spec.output})"
        problem = f"target=mean fits the mean of precision and recall, and {metric} {sides}: leave it out"
    elif spec.adapter is not None and not recipe.full:
        problem = f"adapter={spec.adapter}: an adapter cannot stand on another one; train all weights (--full)"
    if problem:
        raise SpecError(f"{problem}.")
