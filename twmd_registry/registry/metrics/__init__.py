"""The declarations of all metrics: one module per metric, of one type."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from twmd_registry.errors import SpecError
from twmd_registry.messages import menu
from twmd_registry.registry.names import MetricName

TOKEN_KEYS = ("special", "unknown", "subwords", "punctuation", "stopwords", "stopword_unit", "ngram", "idf")
ENCODER_KEYS = (
    "model",
    "revision",
    "adapter",
    "layer",
    "aggregation",
    *TOKEN_KEYS,
    "centering",
    "centering_size",
    "centering_side",
    "against",
    "source_weight",
    "align",
)
"""Keys of every metric of token vectors."""
SENTENCE_KEYS = ("model", "revision", "adapter", "prompt", "against", "source_weight")
"""Keys of sbert that need no token vectors, beside `TAIL_KEYS`."""
TAIL_KEYS = ("baseline", "multiref", "truncation", "dtype")
"""Keys of every metric with a model."""


@dataclass(frozen=True)
class Metric:
    """The facts of a metric; its documentation, signatures, cards and framework classes are made from them.

    `keys` are in signature order, `identical` is the score of a text against itself (None where the model decides),
    `lowest` and `highest` are the bounds of scores, if any. `aligner` is the module of `twmd_registry.align` whose
    function of the same name returns C(X, Y), and with ``_plan`` after it the plan; None where no tokens are aligned.
    """

    title: str
    about: str
    formula: str
    keys: tuple[str, ...]
    class_name: str
    identical: float | None
    citation: str
    two_sided: bool = False
    lowest: float | None = None
    highest: float | None = None
    aligner: str | None = None
    untrainable: str | None = None

    @property
    def span(self) -> str:
        """The range of scores in words: ``-1 to 1``, or ``no fixed bounds``."""
        return (
            "no fixed bounds" if self.lowest is None or self.highest is None else f"{self.lowest:g} to {self.highest:g}"
        )


# Below the type, which the modules import from here.
CATALOGUE: dict[MetricName, Metric] = {name: import_module(f"{__name__}.{name}").METRIC for name in MetricName}
"""The declaration of every metric, by name."""


def entry(metric: str) -> Metric:
    """Return the declaration of a metric; raises SpecError, with the menu of metrics, if there is none."""
    if not isinstance(metric, str) or metric not in set(MetricName):
        raise SpecError(f"unknown metric {metric!r}; {menu(str(metric), MetricName)}.")
    return CATALOGUE[MetricName(metric)]
