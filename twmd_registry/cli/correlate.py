"""``twmd correlate``: agreement of metrics with human ratings."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.metrics import options_of
from twmd_registry.cli.other_scores import by_name
from twmd_registry.cli.output import SUFFIXES, as_json, write_forms
from twmd_registry.cli.terminal import printed, progress_bar
from twmd_registry.comparison.text_table import as_text
from twmd_registry.errors import SpecError
from twmd_registry.judgments.official import rate_external, read_official
from twmd_registry.judgments.sets import content_of, read_rated, title_of
from twmd_registry.registry.names import SEGMENT_LEXICAL, STATISTICS
from twmd_registry.registry.paths import write_file

if TYPE_CHECKING:
    from twmd_registry.judgments.rated import RatedSegments
    from twmd_registry.metaeval.study import StudyResult


COMPARED = (
    "Metrics, 'METRIC;KEY=VALUE;...' with their own keys, signatures, bleu, chrf, chrf++, rouge1, rouge2, rougeL; all "
    "are tested against the first."
)
RESAMPLES = "Resamples of the bootstrap intervals; 0 for none"
TRIALS = "Trials of a paired permutation test against the first metric"
BY = "Average the correlations over groups, items or systems (default: group)."
OFFICIAL = "Also compare the metrics whose scores the shared task published with the data (mte:FOLDER)."
compared = declare.metrics(SEGMENT_LEXICAL, COMPARED, required=True)
CORRELATIONS = f"{', '.join(STATISTICS)} (default: pearson; for demetr, accuracy)."


@command(
    "correlate",
    sacrebleu=SEGMENT_LEXICAL,
    example="twmd correlate wmt:wmt17.jsonl -m twmd bertscore_centered --correlation pearson kendall --trials 1000",
    note=declare.RATED,
)
@declare.argument("data", type=declare.DATA, metavar="DATA")
@compared
@declare.settings
@declare.other_scores
@declare.option("--resamples", "N", f"{RESAMPLES} (default: 1000).", type=declare.COUNT, default=1000)
@declare.output_format(*declare.RESULT_FORMATS)
@declare.many("--correlation", "NAME", CORRELATIONS, type=declare.words(STATISTICS))
@declare.choice("--by", ["none", "group", "item", "system"], "group", BY)
@declare.choice("--level", ["segment", "system"], "segment", "system: means of systems, and their pairwise accuracy.")
@declare.option("--trials", "N", f"{TRIALS} (default: 0).", type=declare.COUNT, default=0)
@declare.flag("--official", OFFICIAL)
@declare.seed("Seed of resamples and trials")
@declare.option("--threshold", "X", "For darr: minimum difference of two ratings to compare (default: 25).")
@declare.output("Write tables, pictures, all results as JSON, and per-segment scores (CSV).")
@declare.run_options
def correlate_command(arguments: Arguments) -> int:
    """Measure how well metrics agree with human ratings, with intervals and tests of whether one agrees better than
    another.
    """
    data = arguments.data
    default = "accuracy" if data.startswith("demetr:") else "pearson"
    statistics = tuple(arguments.correlation) or (default,)
    if arguments.threshold is not None and "darr" not in statistics:
        raise SpecError("--threshold applies to darr: add --correlation darr, or leave it out.")
    from twmd_registry.metaeval.correlation import THRESHOLD
    from twmd_registry.metaeval.study import Study, run_study

    options, rated = options_of(arguments), read_rated(data)
    metrics = [metric.spec or metric.name for metric in arguments.requested]
    official = read_official(data, rated) if arguments.official else []
    official += [rate_external(name, paths, rated) for name, paths in by_name(arguments.scores).items()]
    study = Study(
        data=title_of(data),
        content=content_of(rated),
        metrics=(*metrics, *official),
        statistics=statistics,
        averaging=arguments.by,
        level=arguments.level,
        resamples=arguments.resamples,
        trials=arguments.trials,
        seed=arguments.seed,
        threshold=THRESHOLD if arguments.threshold is None else arguments.threshold,
    )
    drawn = arguments.output and (arguments.level != "system" or rated.item is not None)
    if drawn:
        from twmd_registry.report.figures import require_matplotlib

        require_matplotlib()
    first = "loading the model" if any(metric.spec for metric in arguments.requested) else ""
    with progress_bar(first=first) as progress:
        result = run_study(study, rated, options, progress)
    form = arguments.format
    with printed(as_json(result.as_dict()) if form == "json" else result.as_text(SUFFIXES[form])):
        if arguments.output:
            _write_study(result, rated, arguments.output)
        if drawn:
            _draw(result, rated, arguments.output)
    return 0


def _write_study(result: StudyResult, rated: RatedSegments, folder: Path) -> None:
    """Write the tables in every format, all results as JSON, and per-segment scores."""
    from twmd_registry.report.figures import as_csv

    for title, table in result.tables.items():
        write_forms(folder, title, partial(as_text, table))
    write_file(folder / "study.json", f"{as_json(result.as_dict())}\n".encode())
    blank = [""] * len(rated.group)
    ratings = rated.group, rated.item or blank, rated.system or blank, rated.ratings.tolist()
    header = ["group", "item", "system", "rating", *(metric.label for metric in result.scored)]
    rows = zip(*ratings, *(metric.scores for metric in result.scored), strict=True)
    write_file(folder / "segments.csv", as_csv(header, rows))


def _draw(result: StudyResult, rated: RatedSegments, folder: Path) -> None:
    """Write a study's pictures; at the level of systems they need items."""
    from twmd_registry.report.agreement_page import draw_agreement
    from twmd_registry.report.figures import SUFFIXES

    for suffix in SUFFIXES:
        for name, content in draw_agreement(result, rated, suffix).items():
            write_file(folder / f"{name}{suffix}", content)
