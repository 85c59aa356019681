"""``score`` and ``align``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from twmd_registry.cli.parser.arguments import Commands, command, later, parts, resamples, seed, settings, where
from twmd_registry.registry.names import MetricName


def add_score(commands: Commands) -> None:
    """Add ``twmd score``."""
    sub = command(
        commands,
        "score",
        later("score", "run"),
        "Score files: one segment per line, or JSON lines with prediction and reference(s).",
        "twmd score ref.txt -i system_a.txt system_b.txt -m twmd bertscore_centered\n  cat out.txt | twmd score ref1.txt ref2.txt -m twmd -b",
    )
    sub.add_argument("references", nargs="*", type=Path, metavar="REF", help="reference files, one per reference stream")
    sub.add_argument("-i", "--input", nargs="+", type=Path, metavar="HYP", help="one file per system (default: standard input)")
    sub.add_argument(
        "-m",
        "--metrics",
        nargs="+",
        default=[str(MetricName.TWMD)],
        metavar="METRIC",
        help=f"default: twmd; of {', '.join(MetricName)}, a signature, or SacreBLEU's bleu, chrf, ter",
    )
    settings(sub)
    sub.add_argument(
        "--format", choices=("text", "table", "json", "latex", "tsv"), default="text", help="default: text; table is another word for it"
    )
    sub.add_argument("-b", "--score-only", action="store_true", help="print the numbers alone")
    sub.add_argument("-sh", "--short", action="store_true", help="short signatures")
    sub.add_argument("-sl", "--sentence-level", action="store_true", help="print one line per segment")
    sub.add_argument(
        "-w", "--width", type=int, choices=range(1, 17), default=4, metavar="DIGITS", help="digits after the point, 1 to 16 (default: 4)"
    )
    sub.add_argument("--record", type=Path, metavar="FILE", help="write scores, signatures, hashes and environment to a JSON file")
    _test_options(sub)
    parts(sub)
    where(sub)


def _test_options(sub: argparse.ArgumentParser) -> None:
    """SacreBLEU's tests and intervals."""
    tests = sub.add_mutually_exclusive_group()
    tests.add_argument("--paired-bs", action="store_true", help="paired bootstrap test of every system against the first")
    tests.add_argument("--paired-ar", action="store_true", help="paired approximate randomisation test of every system against the first")
    sub.add_argument("--paired-bs-n", type=resamples, default=1000, metavar="N", help="bootstrap resamples (default: 1000)")
    sub.add_argument("--paired-ar-n", type=resamples, default=10_000, metavar="N", help="randomisation trials (default: 10000)")
    sub.add_argument("--confidence", action="store_true", help="95%% confidence intervals by bootstrap")
    sub.add_argument("--confidence-n", type=resamples, default=1000, metavar="N", help="bootstrap resamples of the intervals (default: 1000)")
    sub.add_argument("--seed", type=seed, default=_usual_seed(), metavar="SEED", help="of the resampling (default: $SACREBLEU_SEED, else 12345)")


def _usual_seed() -> int:
    """SacreBLEU's: from its environment variable where that is a number."""
    found = os.environ.get("SACREBLEU_SEED", "")
    return int(found) if found.isascii() and found.isdecimal() else 12345


def add_align(commands: Commands) -> None:
    """Add ``twmd align``."""
    sub = command(
        commands,
        "align",
        later("align", "run"),
        "Show how the score of two texts comes about: which token carries how much to which.",
        'twmd align moverscore "It rained all day." "The whole day was rainy." -o plan.png',
    )
    sub.add_argument("metric", metavar="METRIC", help="a metric, or a signature")
    sub.add_argument("hypothesis", metavar="HYP", help="a text")
    sub.add_argument("reference", metavar="REF", help="a text")
    sub.add_argument("-o", "--output", type=Path, metavar="FILE", help="draw it: a .png, .svg or .html file")
    settings(sub)
    parts(sub)
    where(sub)
