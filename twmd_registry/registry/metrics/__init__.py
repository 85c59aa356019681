"""The declarations of all metrics, one module each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module, resources

from twmd_registry.errors import SpecError, shown
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
"""Keys of every metric that compares token vectors."""
SENTENCE_KEYS = ("model", "revision", "adapter", "prompt", "against", "source_weight")
"""Keys of sbert that need no token vectors, in addition to `TAIL_KEYS`."""
TAIL_KEYS = ("baseline", "multiref", "truncation", "dtype")
"""Keys of every metric with a model."""


@cache
def _citations() -> dict[str, str]:
    text = resources.files("twmd_registry").joinpath("data/citations.bib").read_text(encoding="utf-8")
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in text.strip().split("\n\n")}


def bibtex(key: str) -> str:
    """Return the BibTeX of a paper."""
    return _citations()[key]


@dataclass(frozen=True)
class Metric:
    """The facts of a metric, from which its documentation, signatures, cards and framework classes are made.

    Attributes:
        title: The name in words.
        about: A sentence on what it measures.
        formula: C(X, Y).
        keys: The keys that it uses, in signature order.
        class_name: The name of its class in frameworks.
        identical: The score of a text against itself; None if the model decides.
        citation: The paper's BibTeX.
        two_sided: Whether it has precision, recall and F1.
        lowest: The lower bound of scores, if any.
        highest: The upper bound.
        aligner: The module of `twmd_registry.align` whose functions ``NAME`` and ``NAME_plan`` return C(X, Y) and the
            plan; None if no tokens are aligned.
        untrainable: Why it cannot be trained, if so.
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
        """The range of scores: ``-1 to 1``, or ``no fixed bounds``."""
        has_bounds = self.lowest is not None and self.highest is not None
        return f"{self.lowest:g} to {self.highest:g}" if has_bounds else "no fixed bounds"


# The modules import the type above.
CATALOGUE: dict[MetricName, Metric] = {name: import_module(f"{__name__}.{name}").METRIC for name in MetricName}
"""The declaration of every metric, by name."""


def entry(metric: str) -> Metric:
    """Return a metric's declaration; raise SpecError, with a menu, for an unknown metric."""
    if not isinstance(metric, str) or metric not in set(MetricName):
        name = shown(metric)
        raise SpecError(f"unknown metric {name}; {menu(name, MetricName)}.")
    return CATALOGUE[MetricName(metric)]
