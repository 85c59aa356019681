"""Two texts: every metric's score, the chosen metric's plan as a picture, its signature."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from twmd_registry.demo.choices import METRICS, PageSettings, preset_for, spec_of
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import make_scorer, score_all
from twmd_registry.errors import InputError, SpecError, collect_warnings
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.names import Output
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.report.alignment_picture import READING, heat_maps

LONGEST = 2_000
"""Characters of either side that are read; the rest is cut, which a visitor is told."""
MOST_TOKENS = 60
"""Tokens of a side up to which a plan is drawn while somebody types."""
HEADERS = ("metric", "score", "P", "R", "F1")
"""Score, precision, recall and F1."""
NOTHING = "-"


class PairResult(NamedTuple):
    """What is known of two texts.

    Attributes:
        rows: Per metric a row of `HEADERS`; a number that there is not is `NOTHING`.
        picture: The chosen metric's plan as HTML, or why there is none.
        signature: Of the chosen metric.
        notices: What a reader of the scores should know.
    """

    rows: tuple[tuple[str, ...], ...]
    picture: str
    signature: str
    notices: tuple[str, ...]


def read_references(text: str) -> list[str]:
    r"""The references in a box: one per line, blank lines left out.

    >>> read_references("It rains.\n\nIt is raining.\n")
    ['It rains.', 'It is raining.']
    """
    return [line.strip() for line in text.split("\n") if line.strip()]


def score_texts(hypothesis: str, references: str, metric: str, settings: PageSettings) -> PairResult:
    """Score one text against its references by every metric.

    Args:
        hypothesis: A text; cut to `LONGEST` characters.
        references: One text per line, together cut to `LONGEST` characters.
        metric: The metric whose plan is drawn.
        settings: What the visitor has set; every metric takes of it what it uses.

    Raises:
        InputError: A side is blank.
        SpecError: There is no such metric, or the settings are not possible for it.
        ModelError: The packaged model is not installed.
    """
    entry(metric)
    sides, cut = _cut(hypothesis, references)
    texts = read_references(sides[1])
    if not sides[0].strip() or not texts:
        raise InputError("write a hypothesis and at least one reference.")
    with collect_warnings() as held:
        specs, more = _specs(metric, settings)
        found = _score(specs, sides[0], texts)
        picture = draw(found[metric])
    rows = tuple(_row(name, found.get(name)) for name in METRICS)
    return PairResult(rows, picture, str(found[metric].signature), (*cut, *more, *dict.fromkeys(held)))


def _cut(hypothesis: str, references: str) -> tuple[tuple[str, str], list[str]]:
    """Both sides without what is too long, and what to say of it."""
    notices = [
        f"{name} cut to the first {LONGEST:,} of {len(text):,} characters: score longer texts in a file."
        for name, text in (("hypothesis", hypothesis), ("references", references))
        if len(text) > LONGEST
    ]
    return (hypothesis[:LONGEST], references[:LONGEST]), notices


def _specs(chosen: str, settings: PageSettings) -> tuple[dict[str, MetricSpec], list[str]]:
    """Every metric's specification; of metrics that settings or preset do not fit, notices, unless it is the chosen
    one.
    """
    specs, notices = {chosen: spec_of(chosen, settings)}, []
    for name in METRICS:
        try:
            specs.setdefault(name, spec_of(name, settings))
        except SpecError as error:
            notices.append(f"{name}: {error}")
    if others := [name for name in METRICS if preset_for(name, settings.preset) != settings.preset]:
        notices.append(f"no preset {settings.preset!r} of {', '.join(others)}: they take their defaults.")
    return specs, notices


def _score(specs: dict[str, MetricSpec], hypothesis: str, references: Sequence[str]) -> dict[str, ScoreSet]:
    return dict(
        zip(specs, score_all([make_scorer(spec) for spec in specs.values()], [hypothesis], [references]), strict=True)
    )


def _row(metric: str, found: ScoreSet | None) -> tuple[str, ...]:
    """One line of the table."""
    whole = found.as_dict() if found else {}
    numbers = (f"{whole[name]:.4f}" if name in whole else NOTHING for name in (metric, *Output))
    return (metric, *numbers)


def draw(found: ScoreSet) -> str:
    """The plan of the only segment, against the reference that scores highest, as HTML.

    Args:
        found: Scores of one segment.

    Returns:
        Heat maps, or a sentence that says why there are none.
    """
    try:
        alignment = found.explain(0)
    except SpecError as error:  # a regression model has no plan, an ensemble those of its members
        return f"<p>{escape(str(error))}</p>"
    sizes = len(alignment.hypothesis), len(alignment.reference)
    if not min(sizes):
        return "<p>There is nothing to draw: a text has no tokens.</p>"
    if max(sizes) > MOST_TOKENS:
        how = f"twmd align {found.metric} HYP REF -o plan.html"
        return f"<p>{sizes[0]} and {sizes[1]} tokens: this page draws up to {MOST_TOKENS} a side; {how} draws more.</p>"
    return READING + heat_maps(alignment)
