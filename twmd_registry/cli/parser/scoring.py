"""``score``, ``report`` and ``align``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from twmd_registry.cli.parser.arguments import Commands, columns, command, digits, form, later, parts, resamples, seed, settings, share, where, whole
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName

RAY_OPTIONS = ("output", "part_rows", "num_workers", "num_gpus", "resume", "strict")
"""What means nothing on one machine."""


def _by_engine(arguments: argparse.Namespace) -> int:
    return later({"local": "score", "ray": "scale"}[arguments.engine], "run")(arguments)


def add_score(commands: Commands) -> None:
    """Add ``twmd score``."""
    sub = command(
        commands,
        "score",
        _by_engine,
        "Score files: lines of text, or tables (JSON lines, CSV, TSV, Parquet) with columns prediction and reference or references.",
        "twmd score ref.txt -i system_a.txt system_b.txt -m twmd bertscore_centered\n"
        "  cat out.txt | twmd score ref1.txt ref2.txt -m twmd -b\n  twmd score -i rows.csv.gz --reference-column gold",
        metrics=tuple(LEXICAL_NAMES),
    )
    sub.add_argument("references", nargs="*", type=Path, metavar="REF", help="reference files, one per reference stream; before -i and -m")
    sub.add_argument(
        "-i",
        "--input",
        nargs="+",
        type=path_or_url,
        metavar="HYP",
        help="one file per system (default: standard input); with --engine ray: files, patterns, folders or URLs of one data set",
    )
    sub.add_argument(
        "-m",
        "--metrics",
        nargs="+",
        default=[str(MetricName.TWMD)],
        metavar="METRIC",
        help=f"default: twmd; of {', '.join(MetricName)}, a signature, or SacreBLEU's bleu, chrf, ter",
    )
    settings(sub)
    columns(sub)
    form(sub, ("text", "json", "latex", "tsv"))
    sub.add_argument("-b", "--score-only", action="store_true", help="print the numbers alone")
    sub.add_argument("-sh", "--short", action="store_true", help="short signatures")
    sub.add_argument("-sl", "--sentence-level", action="store_true", help="print one line per segment")
    digits(sub, "4, and 2 for SacreBLEU's metrics, which run to 100")
    sub.add_argument("--record", type=Path, metavar="FILE", help="write scores, signatures, hashes and environment to a JSON file")
    _test_options(sub)
    _ray_options(sub)
    parts(sub)
    where(sub)


def _ray_options(sub: argparse.ArgumentParser) -> None:
    """What a data set larger than one machine needs; absent where it was not given."""
    sub.add_argument("--engine", choices=("local", "ray"), default="local", help="ray: files with columns on Ray Data (default: local)")
    group = sub.add_argument_group("with --engine ray")
    group.add_argument("--output", metavar="DIR", help="an empty folder, or URL of one, for the scores and the record")
    group.add_argument("--part-rows", type=whole, metavar="N", help="rows that are scored and written together (default: 10000)")
    group.add_argument("--num-workers", type=whole, metavar="N", help="how many work at once (default: as many as there are GPUs, or else CPUs)")
    group.add_argument("--num-gpus", type=share, metavar="N", help="GPUs of each worker, 0.5 for two that share one (default: 1 where there are any)")
    group.add_argument("--resume", action="store_true", default=None, help="go on with an output folder; finished parts are not scored again")
    group.add_argument("--strict", action="store_true", default=None, help="stop at a row that cannot be scored (default: set it aside)")


def _test_options(sub: argparse.ArgumentParser) -> None:
    """SacreBLEU's tests and intervals."""
    tests = sub.add_mutually_exclusive_group()
    tests.add_argument("--paired-bs", action="store_true", help="paired bootstrap test of every system against the first")
    tests.add_argument("--paired-ar", action="store_true", help="paired approximate randomisation test of every system against the first")
    sub.add_argument("--paired-bs-n", type=resamples, default=1000, metavar="N", help="bootstrap resamples (default: 1000)")
    sub.add_argument("--paired-ar-n", type=resamples, default=10_000, metavar="N", help="randomisation trials (default: 10000)")
    sub.add_argument("--confidence", action="store_true", help="95%% confidence intervals by bootstrap")
    sub.add_argument("--confidence-n", type=resamples, default=1000, metavar="N", help="bootstrap resamples of the intervals (default: 1000)")
    _seed(sub)


def _seed(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--seed", type=seed, default=_usual_seed(), metavar="SEED", help="of the resampling (default: $SACREBLEU_SEED, else 12345)")


def _usual_seed() -> int:
    """SacreBLEU's: from its environment variable where that is a number."""
    found = os.environ.get("SACREBLEU_SEED", "")
    return int(found) if found.isascii() and found.isdecimal() else 12345


def path_or_url(text: str) -> Path | str:
    """A path, or a URL, which is none: it would lose a slash."""
    return text if "://" in text else Path(text)


REPORTED = (MetricName.TWMD, MetricName.BERTSCORE_CENTERED, MetricName.MOVERSCORE, "bleu", "chrf")


def add_report(commands: Commands) -> None:
    """Add ``twmd report``."""
    sub = command(
        commands,
        "report",
        later("report", "run"),
        "Compare systems in one HTML file: scores with intervals and tests, distributions, correlations, alignments, every segment, the record.",
        "twmd report ref.txt -i system_a.txt system_b.txt -o report.html",
        files=("references", "input"),
        metrics=tuple(LEXICAL_NAMES),
    )
    sub.add_argument("references", nargs="*", type=Path, metavar="REF", help="reference files, one per reference stream")
    sub.add_argument("-i", "--input", nargs="+", type=Path, required=True, metavar="HYP", help="one file per system, the baseline first")
    sub.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the HTML file to write")
    sub.add_argument(
        "-m", "--metrics", nargs="+", default=list(map(str, REPORTED)), metavar="METRIC", help=f"as for score (default: {' '.join(REPORTED)})"
    )
    columns(sub)
    settings(sub)
    _seed(sub)
    parts(sub)
    where(sub)


def add_align(commands: Commands) -> None:
    """Add ``twmd align``."""
    sub = command(
        commands,
        "align",
        later("align", "run"),
        "Show how the score of two texts comes about: which token carries how much to which.",
        'twmd align moverscore "It rained all day." "The whole day was rainy." -o plan.png',
        metrics=(),
    )
    sub.add_argument("metric", metavar="METRIC", help="a metric, or a signature")
    sub.add_argument("hypothesis", metavar="HYP", help="a text")
    sub.add_argument("reference", metavar="REF", help="a text")
    sub.add_argument("-o", "--output", type=Path, metavar="FILE", help="draw it: a .png, .svg or .html file")
    settings(sub)
    parts(sub)
    where(sub)
