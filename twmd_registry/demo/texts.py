"""Two texts: every metric's score, the chosen metric's plan as a picture, its signature."""

from __future__ import annotations

from html import escape

from twmd_registry.demo.choices import METRICS, PageSettings, notices_of_preset, spec_of
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import make_scorer, score_all
from twmd_registry.errors import InputError, SpecError, collect_warnings
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import OUTPUTS
from twmd_registry.report.alignment_picture import READING, check_drawable, heat_maps

LONGEST = 2_000
"""Characters of each side that are read; a notice names the rest."""
MOST_TOKENS = 60
"""Tokens of a side up to which a plan is drawn while a visitor types."""
HEADERS = ("metric", "score", "P", "R", "F1")
NOTHING = "-"


def score_texts(
    hypothesis: str, references: str, metric: str, settings: PageSettings, source: str = ""
) -> tuple[list[tuple[str, ...]], str, str, list[str]]:
    """Score one text against its references, one per line, by every metric; each side is cut to `LONGEST` characters.
    Metrics of presets with ``against=source`` compare it with `source`, where it is not blank.

    Returns per metric a row of `HEADERS`, with `NOTHING` for a number that does not exist; the plan of `metric` as
    HTML, or why there is none; its signature; notices. Raises InputError for a blank side, and SpecError where the
    settings are not possible for `metric`.
    """
    entry(metric)
    texts = [line.strip() for line in references[:LONGEST].split("\n") if line.strip()]
    if not hypothesis[:LONGEST].strip() or not texts:
        raise InputError("write a hypothesis and at least one reference.")
    notices = [
        f"{name} cut to the first {LONGEST:,} of {len(text):,} characters: score longer texts in a file."
        for name, text in (("hypothesis", hypothesis), ("references", references), ("source", source))
        if len(text) > LONGEST
    ]
    with collect_warnings() as warnings:
        specs = {metric: spec_of(metric, settings)}
        for name in METRICS:
            try:
                specs.setdefault(name, spec_of(name, settings))
            except SpecError as error:
                notices.append(f"{name}: {error}")
        sources = [source[:LONGEST]] if source.strip() else None
        if specs[metric].against and sources is None:
            raise InputError(f"{metric} compares the hypothesis with its source here: write the source, too.")
        for name in [name for name, spec in specs.items() if spec.against and sources is None]:
            notices.append(f"{name}: it compares the hypothesis with its source, which is not given.")
            del specs[name]
        sets = score_all([make_scorer(spec) for spec in specs.values()], [hypothesis[:LONGEST]], [texts], sources)
        by_metric = dict(zip(specs, sets, strict=True))
        picture = _draw_plan(by_metric[metric])
    notices += notices_of_preset(METRICS, settings.preset)
    rows = []
    for name in METRICS:
        values = by_metric[name].as_dict() if name in by_metric else {}
        numbers = (f"{values[key]:.4f}" if key in values else NOTHING for key in (name, *OUTPUTS))
        rows.append((name, *numbers))
    return rows, picture, str(by_metric[metric].signature), [*notices, *dict.fromkeys(warnings)]


def _draw_plan(scores: ScoreSet) -> str:
    """Draw the plan of one segment and its reference with the highest score as HTML, or explain why there is none."""
    try:
        alignment = scores.explain(0)  # a regression model has no plan; an ensemble's members have their own
        check_drawable(alignment, MOST_TOKENS)
    except (InputError, SpecError) as error:
        return f"<p>{escape(str(error))}</p>"
    return READING + heat_maps(alignment)
