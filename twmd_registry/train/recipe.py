"""Settings of a training run, and which metrics can be trained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from twmd_registry.errors import SpecError
from twmd_registry.messages import menu
from twmd_registry.registry.metrics import CATALOGUE

if TYPE_CHECKING:  # help texts on the command line need the names below without the presets
    from twmd_registry.registry.metric_spec import MetricSpec

TRAINABLE = tuple(name for name, metric in CATALOGUE.items() if metric.untrainable is None)
POPULATIONS = frozenset({"batch", "corpus"})
"""Centerings by the mean of the scored texts, which in training are the batch."""

Target = Literal["output", "mean"]
"""Value to fit to the ratings: the score (``output``), or the mean of precision and recall."""
Loss = Literal["mse", "pearson"]
"""``mse``: the mean squared error of a line on the score (TWMD paper, 6.2). ``pearson``: `MSE_SHARE` times that, minus
Pearson's r within the batch, which then has a single group (a language pair) of a single data set.
"""

MSE_SHARE = 0.3
"""Weight of the mean squared error, next to a correlation of weight 1. It keeps all groups on one scale."""
MIN_CORRELATED = 3
"""Minimum segments for a correlation, which for two is always 1 or -1."""
LORA_RATE, FULL_RATE = 5e-4, 5e-5
"""Default learning rates for an adapter and for all weights."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of a training run; raises SpecError for an impossible number.

    `full` trains all weights that the metric reads instead of a LoRA adapter. `bf16` computes the encoder's products in
    bfloat16. None means the default rate, the model's own dropout, and no checkpoints within epochs.
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
        """Raise SpecError for an impossible number."""
        for name in ("rank", "epochs", "batch", "save_steps"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise SpecError(f"{name}={value!r} is not possible: expected a positive integer.")
        if not 0 < self.rate < math.inf:
            raise SpecError(f"learning_rate={self.learning_rate!r} is not possible: expected a finite number above 0.")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise SpecError(f"dropout={self.dropout!r} is not possible: expected a number from 0 to below 1.")
        if self.loss == "pearson" and self.batch < MIN_CORRELATED:
            need = f"a correlation needs {MIN_CORRELATED} segments"
            raise SpecError(f"batch={self.batch} is not possible with loss=pearson: {need}.")

    @property
    def rate(self) -> float:
        """The learning rate in use."""
        if self.learning_rate is not None:
            return self.learning_rate
        return FULL_RATE if self.full else LORA_RATE


def check_trainable(spec: MetricSpec, recipe: Recipe) -> None:
    """Raise SpecError for a requested metric without a trainable encoder, or with a key that has no use in training."""
    metric, problem = spec.metric, ""
    if metric not in TRAINABLE:
        problem = f"{metric} cannot be trained: {CATALOGUE[metric].untrainable}; {menu(metric, TRAINABLE)}"
    elif spec.centering.kind in POPULATIONS and recipe.batch == 1:
        problem = f"centering={spec.centering} with a training batch of 1 subtracts a segment's mean from itself"
    elif spec.idf is not None and spec.idf.is_counted:
        problem = f"idf={spec.idf} counts over the scored texts: use idf=background:HASH"
    elif spec.against == "both" or len(spec.centering.means) > 1:
        problem = "train one comparison at a time, with one mean vector: against=source or reference"
    elif spec.baseline is not None:
        problem = "a baseline belongs to the untrained metric: fit one for the trained metric ('twmd fit baseline')"
    elif spec.dtype != "float32":
        problem = f"dtype={spec.dtype}: weights are trained in float32; set the dtype for scoring"
    elif recipe.target == "mean" and spec.output != "f1":
        sides = "has no sides" if spec.output is None else f"has output={spec.output}"
        problem = f"target=mean fits the mean of precision and recall, but {metric} {sides}: leave it out"
    elif spec.adapter is not None and not recipe.full:
        instead = "name a model (model=embedded), or train all weights (--full)"
        problem = f"adapter={spec.adapter}: an adapter cannot be trained on another one; {instead}"
    if problem:
        raise SpecError(f"{problem}.")
