"""Commands that measure how metrics agree with people."""

from __future__ import annotations

from pathlib import Path

from twmd_registry.cli.parser.arguments import Commands, command, later, where

MEASURES = {
    "stsscore": "stsscore",
    "bertscore": "bertscore_centered;centering=none;baseline=b52f4f73e689",
    "sbert": "sbert;layer=6;special=all;centering=none",
}
"""What the STSScore paper measures beside BLEU, on the embedded model."""


def add_study(commands: Commands) -> None:
    """Add ``twmd study``."""
    sub = command(
        commands,
        "study",
        later("study", "run_study"),
        "Do a paper's analysis over: its tables beside the paper's numbers, and its figures.",
        "twmd study stsscore --data-dir data/ -o out/",
    )
    sub.add_argument("paper", choices=("stsscore",), help="Herbold 2024")
    sub.add_argument("--data-dir", type=Path, metavar="DIR", help="holds stsb/, mrpc/, qqp/, wmt22/, as far as you have them")
    sub.add_argument("--hub", action="store_true", help="read from the Hugging Face Hub what DIR does not hold")
    sub.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="tables (text, Markdown, LaTeX, TSV), figures (PNG, SVG, CSV)")
    for name, member in MEASURES.items():
        sub.add_argument(f"--{name}", default=member, metavar="METRIC", help=f"a metric with keys, as a member of an ensemble (default: {member})")
    where(sub)
