"""``twmd correlate`` and ``twmd robustness``: metrics beside human ratings, and on challenge sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.output import STYLES, as_json, check_folder, write_file, write_forms, write_rows
from twmd_registry.cli.requested import metrics_of, options_of
from twmd_registry.cli.terminal import Style, best, matches, progress_bar, say
from twmd_registry.errors import SpecError
from twmd_registry.metaeval.side_by_side import FORMATS, as_text
from twmd_registry.registry.names import SEGMENT_LEXICAL

if TYPE_CHECKING:
    from twmd_registry.metaeval.study import RobustnessResult, StudyResult

COMPARED = (
    "Metrics, 'METRIC;KEY=VALUE;...' with keys of their own, signatures, bleu, chrf, chrf++; others are tested against "
    "the first."
)
RESAMPLES, TRIALS = "Of the bootstrap intervals; 0 for none", "Of a paired permutation test against the first metric"
compared = declare.metrics(SEGMENT_LEXICAL, COMPARED, required=True)
resamples = declare.number("--resamples", 1000, f"{RESAMPLES} (default: 1000).", type=declare.COUNT)


@command(
    "correlate",
    lexical=SEGMENT_LEXICAL,
    example="twmd correlate wmt:wmt17.jsonl -m twmd bertscore_centered --correlation pearson kendall --trials 1000",
)
@declare.argument("data", required=False, type=declare.DATA, metavar="[DATA]")
@declare.option("--data named_data", "DATA", f"The same as DATA, as other commands have it. {declare.RATED}")
@compared
@declare.settings
@resamples
@declare.output_format(*declare.RESULT_FORMATS)
@declare.many("--correlation", "NAME", "pearson (the default), spearman, kendall, darr, acc_eq.", default=["pearson"])
@declare.choice("--by", ["none", "group", "item", "system"], "group", "What is averaged over (default: group).")
@declare.choice("--level", ["segment", "system"], "segment", "system: means of systems, and their pairwise accuracy.")
@declare.number("--trials", 0, f"{TRIALS} (default: 0).", type=declare.COUNT)
@declare.seed("Of both")
@declare.option("--threshold", "X", "Of darr: ratings that differ by less are not compared (default: 25).")
@declare.output("Write the tables, everything as JSON, and every segment's scores (CSV).")
@declare.run_options
def correlate_command(arguments: Arguments) -> int:
    """Measure how metrics agree with people on rated data, with intervals, and whether one agrees better than
    another.
    """
    if (arguments.data is None) == (arguments.named_data is None):
        raise SpecError("name rated data once: twmd correlate DATA -m METRIC..., or --data DATA.")
    data = arguments.data or arguments.named_data
    if arguments.threshold is not None and "darr" not in arguments.correlation:
        raise SpecError("--threshold is of darr: ask for --correlation darr, or leave it out.")
    from twmd_registry.judgments.sets import content_of, read_rated, title_of
    from twmd_registry.metaeval.agreement import Averaging
    from twmd_registry.metaeval.correlation import THRESHOLD, statistic_named
    from twmd_registry.metaeval.study import Study, run_study

    options = options_of(arguments)
    check_folder(arguments.output)
    rated = read_rated(data)
    study = Study(
        data=title_of(data),
        content=content_of(rated),
        metrics=metrics_of(arguments),
        statistics=tuple(statistic_named(name) for name in arguments.correlation),
        averaging=Averaging(arguments.by),
        level=arguments.level,
        resamples=arguments.resamples,
        trials=arguments.trials,
        seed=arguments.seed,
        threshold=THRESHOLD if arguments.threshold is None else arguments.threshold,
    )
    with progress_bar(total=len(rated.ratings)) as progress:
        result = run_study(study, rated, options, progress)
    averages = {statistic.value: True for statistic in study.statistics} | {"accuracy": True}
    # p below 0.05 stands between two columns or ends a line
    rules = best(averages), matches(r"(?<=  )0\.0[0-4]\d\d(?=  | ?$)", Style.GOOD)
    say(_format(result, arguments.format), *(rules if arguments.format == "text" else ()))
    if arguments.output:
        _write_tables(result, arguments.output, "study")
        blank = [""] * len(rated.group)
        ratings = rated.group, rated.item or blank, rated.system or blank, rated.ratings.tolist()
        header = ["group", "item", "system", "rating", *(metric.label for metric in result.scored)]
        rows = zip(*ratings, *(metric.scores for metric in result.scored), strict=True)
        write_rows(arguments.output / "segments.csv", header, rows)
    return 0


@command(
    "robustness",
    lexical=SEGMENT_LEXICAL,
    example="twmd robustness --data demetr:demetr.jsonl.xz,first=100 -m twmd 'twmd;adapter=tuned/' bleu",
)
@declare.many("--data", "DATA", declare.RATED, required=True)
@compared
@declare.settings
@resamples
@declare.output_format(*declare.RESULT_FORMATS)
@declare.seed("Of the bootstrap")
@declare.output("Write the tables, everything as JSON, and every pair with its scores (CSV).")
@declare.run_options
def robustness_command(arguments: Arguments) -> int:
    """Measure whether metrics prefer texts to the same texts after a small edit, on a published challenge set such as
    DEMETR.

    Any rated data with two texts of each item will do: the better rated one is to score higher.
    """
    from twmd_registry.judgments.sets import content_of, read_all_rated, title_of
    from twmd_registry.metaeval.study import run_robustness

    options = options_of(arguments)
    check_folder(arguments.output)
    data = {f"{title_of(name)}@{content_of(rated)}": rated for name, rated in read_all_rated(arguments.data).items()}
    sampling = {"resamples": arguments.resamples, "seed": arguments.seed}
    with progress_bar() as progress:
        result = run_robustness(data, metrics_of(arguments), options, progress=progress, **sampling)
    say(_format(result, arguments.format))
    if arguments.output:
        _write_tables(result, arguments.output, "robustness")
        pairs = result.pairs
        scores = [f"{metric.label} {side}" for metric in result.scored for side in ("better", "worse")]
        rows = []
        for i in range(0, len(pairs.group), 2):
            own = [score for metric in result.scored for score in metric.scores[i : i + 2]]
            references = [pairs.references[i]] if isinstance(pairs.references[i], str) else pairs.references[i]
            rows.append([pairs.group[i], *pairs.predictions[i : i + 2], "\n".join(references), *own])
        write_rows(arguments.output / "pairs.csv", ["edit", "better", "worse", "reference", *scores], rows)
    return 0


def _format(result: StudyResult | RobustnessResult, form: str) -> str:
    return as_json(result.as_dict()) if form == "json" else result.as_text(STYLES[form])


def _write_tables(result: StudyResult | RobustnessResult, folder: Path, name: str) -> None:
    """Write the tables in every format, and everything as JSON."""
    for title, table in result.tables.items():
        write_forms(folder, title, {suffix: as_text(table, form) for suffix, form in FORMATS.items()})
    write_file(folder / f"{name}.json", f"{as_json(result.as_dict())}\n".encode())
