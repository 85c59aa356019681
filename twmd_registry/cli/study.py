"""``twmd study``."""

from __future__ import annotations

import rich_click as click

from twmd_registry.cli.declare import FOLDER, INPUT_FOLDER, Arguments, Declare, argument, command, option, run_options
from twmd_registry.errors import InputError

MEASURES = {
    "stsscore": "stsscore",
    "bertscore": "bertscore_centered;centering=none;baseline=d6bd8bc4d4c0",
    "sbert": "sbert;layer=6;special=all;centering=none",
}
"""What the STSScore paper measures beside BLEU, on the embedded model."""


def _measure(name: str) -> Declare:
    about = f"A metric with keys, as a member of an ensemble (default: {MEASURES[name]})."
    return option(f"--{name}", default=MEASURES[name], metavar="METRIC", help=about)


@command("study", example="twmd study stsscore --data-dir data/ -o out/")
@argument("paper", type=click.Choice(["stsscore"]))
@option("--data-dir", type=INPUT_FOLDER, metavar="DIR", help="Holds stsb/, mrpc/, qqp/, wmt22/, as far as you have them.")
@option("--hub", is_flag=True, help="Read from the Hugging Face Hub what DIR does not hold.")
@option("-o", "--output", type=FOLDER, required=True, metavar="DIR", help="Tables (text, Markdown, LaTeX, TSV), figures (PNG, SVG, CSV).")
@_measure("stsscore")
@_measure("bertscore")
@_measure("sbert")
@run_options
def study_command(arguments: Arguments) -> int:
    """Repeat a paper's analysis: its tables beside the paper's numbers, and its figures. The paper is Herbold 2024 (stsscore).

    Raises:
        InputError: Neither a folder nor the Hub is named.
    """
    if not arguments.data_dir and not arguments.hub:
        raise InputError("no data: give --data-dir DIR, --hub, or both.")
    from twmd_registry.cli.herbold_study import run_study

    return run_study(arguments)
