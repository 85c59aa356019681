"""Commands that measure how metrics agree with people."""

from __future__ import annotations

import argparse
from pathlib import Path

from twmd_registry.cli.parser.arguments import DATA, Commands, columns, command, count, device, form, later, seed, settings, tolerance, where
from twmd_registry.registry.names import EMBEDDED_MODEL, SEGMENT_LEXICAL

MEASURES = ("stsscore", "bertscore", "sbert")
"""What the STSScore paper measures beside BLEU; the metrics are those of ``data/papers/stsscore.toml``, on the embedded model."""


def add_study(commands: Commands) -> None:
    """Add ``twmd study``."""
    sub = command(
        commands,
        "study",
        later("study", "run_study"),
        "Do a paper's analysis over: its tables beside the paper's numbers, and its figures.",
        "twmd study stsscore --data-dir data/ -o out/",
        files=("data_dir",),
    )
    sub.add_argument("paper", choices=("stsscore",), help="Herbold 2024")
    sub.add_argument("--data-dir", type=Path, metavar="DIR", help="holds stsb/, mrpc/, qqp/, wmt22/, as far as you have them")
    sub.add_argument("--hub", action="store_true", help="read from the Hugging Face Hub what DIR does not hold")
    sub.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="tables (text, Markdown, LaTeX, TSV), figures (PNG, SVG, CSV)")
    for name in MEASURES:
        about = "a metric with keys, as a member of an ensemble (default: the paper's, on the embedded model)"
        sub.add_argument(f"--{name}", metavar="METRIC", help=about)
    where(sub)


def add_diagnose(commands: Commands) -> None:
    """Add ``twmd diagnose``."""
    sub = command(
        commands,
        "diagnose",
        later("diagnose", "run_diagnose"),
        "Measure how similar a model's word vectors are, layer by layer, for every centering (TWMD paper, section 5, Figures 1 and 2).",
        "twmd diagnose embedded --data corpus.txt -o out/",
        files=("data",),
    )
    sub.add_argument("model", metavar="MODEL", help="a Hub id, a folder, or 'embedded'")
    sub.add_argument("--data", type=Path, required=True, metavar="FILE", help="texts, one per line, or a table")
    columns(sub)
    sub.add_argument("--seed", type=seed, default=12345, metavar="SEED", help="of the draw of word pairs (default: 12345)")
    sub.add_argument("-o", "--output", type=Path, metavar="DIR", help="write the numbers (CSV) and the figure (PNG, SVG)")
    device(sub)


def _compared(sub: argparse.ArgumentParser, more: str = "") -> None:
    """Which metrics are compared, and with how many resamples."""
    metrics = f"metrics, 'METRIC;KEY=VALUE;...' with keys of their own, signatures, bleu, chrf, chrf++{more}"
    sub.add_argument("-m", "--metrics", nargs="+", required=True, metavar="METRIC", help=metrics)
    settings(sub)
    sub.add_argument("--resamples", type=count, default=1000, metavar="N", help="of the bootstrap intervals; 0 for none (default: 1000)")
    form(sub, ("text", "markdown", "latex", "tsv", "json"))


def add_correlate(commands: Commands) -> None:
    """Add ``twmd correlate``."""
    sub = command(
        commands,
        "correlate",
        later("correlate", "run_correlate"),
        "Measure how metrics agree with people on rated data, with intervals, and whether one agrees better than another.",
        "twmd correlate wmt:wmt17.jsonl -m twmd bertscore_centered --correlation pearson kendall --trials 1000",
        data=("data",),
        metrics=SEGMENT_LEXICAL,
    )
    data = sub.add_mutually_exclusive_group(required=True)
    data.add_argument("data", nargs="?", default=argparse.SUPPRESS, metavar="DATA", help=DATA)
    data.add_argument("--data", metavar="DATA", help="the same, as other commands have it")
    _compared(sub, "; others are tested against the first")
    sub.add_argument("--correlation", nargs="+", default=["pearson"], metavar="NAME", help="pearson (the default), spearman, kendall, darr, acc_eq")
    sub.add_argument("--by", choices=("none", "group", "item", "system"), default="group", help="what is averaged over (default: group)")
    sub.add_argument("--level", choices=("segment", "system"), default="segment", help="system: means of systems, and their pairwise accuracy")
    sub.add_argument("--trials", type=count, default=0, metavar="N", help="of a paired permutation test against the first metric (default: 0)")
    sub.add_argument("--seed", type=seed, default=12345, metavar="SEED", help="of both (default: 12345)")
    sub.add_argument("--threshold", type=tolerance, metavar="X", help="of darr: ratings that differ by less are not compared (default: 25)")
    sub.add_argument("-o", "--output", type=Path, metavar="DIR", help="write the tables, everything as JSON, and every segment's scores (CSV)")
    where(sub)


def add_robustness(commands: Commands) -> None:
    """Add ``twmd robustness``."""
    sub = command(
        commands,
        "robustness",
        later("robustness", "run_robustness_command"),
        "Measure whether metrics prefer good translations to the same texts after small edits that change the meaning (English).",
        "twmd robustness --data wmt:wmt17.jsonl -m twmd 'twmd;adapter=tuned/' bleu",
        data=("data",),
        metrics=SEGMENT_LEXICAL,
    )
    sub.add_argument("--data", nargs="+", required=True, metavar="DATA", help=DATA)
    _compared(sub)
    sub.add_argument("--seed", type=seed, default=12345, metavar="SEED", help="of the edits and the bootstrap (default: 12345)")
    sub.add_argument("-o", "--output", type=Path, metavar="DIR", help="write the tables, everything as JSON, and every edit with its scores (CSV)")
    where(sub)


def add_reproduce(commands: Commands) -> None:
    """Add ``twmd reproduce``."""
    sub = command(
        commands,
        "reproduce",
        later("reproduce", "run_reproduce"),
        "Compute a paper's table again with any model, beside the paper's own numbers.",
        "twmd reproduce twmd-table2 --data-dir data/ -o out/",
        files=("data_dir",),
    )
    sub.add_argument(
        "table",
        metavar="TABLE",
        help="twmd-table1 to 9, twmd-figure1 to 6, twmd-appendix-b (Chen et al. 2020); moverscore-table1, 3, 5, 6, moverscore-figure2, 3 "
        "(Zhao et al. 2019); stsscore-table1 to 4, stsscore-auc (Herbold 2024)",
    )
    sub.add_argument("--data-dir", type=Path, required=True, metavar="DIR", help="holds wmt/wmt17.jsonl, sts/STS12 and so on, as the table needs")
    sub.add_argument("--model", default=EMBEDDED_MODEL, help=f"default: {EMBEDDED_MODEL}")
    sub.add_argument("--layer", type=int, metavar="K", help="hidden state (default: the paper's for its models, else the preset's or by rule)")
    sub.add_argument("-o", "--output", type=Path, metavar="DIR", help="write the table (text, Markdown, LaTeX, TSV) and signatures")
    where(sub)
