"""What a person wrote about each metric for its card; every fact beside it is filled in from the registry."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

from twmd_registry.errors import SpecError, menu
from twmd_registry.registry.names import EMBEDDED_READS, MetricName

_FOLDER = resources.files("twmd_registry").joinpath("data/cards")
_SHARED = "shared"
_READS = "{embedded_reads}"
"""What stands for `EMBEDDED_READS`."""


class CardExamples(NamedTuple):
    """One reference and the predictions that every card scores against it.

    Attributes:
        reference: The reference.
        best: The same text.
        partial: The same said in other words.
        worst: A text about something else.
        misled: A text that means the opposite, in nearly the same words.
    """

    reference: str
    best: str
    partial: str
    worst: str
    misled: str


class CardScores(NamedTuple):
    """What the embedded preset gives, to three digits; the tests compute it again.

    Attributes:
        best: Of the same text, see `CardExamples`.
        partial: Of the same said in other words.
        worst: Of a text about something else.
        misled: Of the opposite in nearly the same words.
        unrelated: The mean over 392 predictions of WMT17, every tenth, each against the reference 1,960 rows further
            on.
        words: The mean over 400 pairs of single words: of the vocabulary's words of three ASCII letters or more, in its
            order, every
            tenth of the first 4,000, each against the word 4,000 further on.
    """

    best: float
    partial: float
    worst: float
    misled: float
    unrelated: float
    words: float


class CardPaperRow(NamedTuple):
    """A row of a paper's table that a card shows.

    Attributes:
        table: One of `twmd_registry.papers.experiment.experiment_names`.
        row: What the paper calls the metric.
    """

    table: str
    row: str


@dataclass(frozen=True)
class CardText:
    """The hand-written part of a card; texts are Markdown.

    Attributes:
        emoji: The Space's sign on the Hub.
        color_from: Where the colours of its tile begin, one of the Hub's names.
        color_to: And where they end.
        headline: The metric in a sentence or two, for lists.
        description: How it works.
        range_note: What to know about its range; may be empty.
        reading: How its values are read.
        limitations: Where it fails: this metric's own limits first, then those of all.
        further: Papers and neighbours.
        scores: Of the examples, of unrelated texts and of unrelated words.
        papers: The papers' rows to show.
    """

    emoji: str
    color_from: str
    color_to: str
    headline: str
    description: str
    range_note: str
    reading: str
    limitations: tuple[str, ...]
    further: tuple[str, ...]
    scores: CardScores
    papers: tuple[CardPaperRow, ...]


def metrics_with_card() -> tuple[MetricName, ...]:
    """The metrics that have a card, in the registry's order."""
    return tuple(metric for metric in MetricName if _FOLDER.joinpath(f"{metric}.toml").is_file())


def prose_of(metric: str) -> CardText:
    """Read what was written about a metric.

    Args:
        metric: Its name.

    Raises:
        SpecError: It has no card; the message lists those that do.
    """
    if metric not in metrics_with_card():
        raise SpecError(f"there is no card for {metric!r}; {menu(metric, metrics_with_card())}.")
    table = _read(metric)
    return CardText(
        **table
        | {
            "limitations": (
                *table["limitations"],
                *(one.replace(_READS, EMBEDDED_READS) for one in _read(_SHARED)["limitations"]),
            ),
            "further": tuple(table["further"]),
            "scores": CardScores(**table["scores"]),
            "papers": tuple(CardPaperRow(**row) for row in table["papers"]),
        }
    )


def examples() -> CardExamples:
    """The texts that every card scores."""
    return CardExamples(**_read(_SHARED)["example"])


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(_FOLDER.joinpath(f"{name}.toml").read_text(encoding="utf-8"))
