"""``twmd study``."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from twmd_registry.cli.declare import (
    FOLDER,
    INPUT_FOLDER,
    RESULT_FORMATS,
    Arguments,
    Declare,
    argument,
    command,
    option,
    output_format,
    run_options,
)
from twmd_registry.cli.files import write_file
from twmd_registry.cli.output import as_json
from twmd_registry.cli.reproduce import SUFFIXES, write_tables
from twmd_registry.cli.requested import options_of
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.errors import FileError, InputError

MEMBERS = {"stsscore": "STSScore", "bertscore": "BERTScore", "sbert": "S-BERT"}
"""By option, the paper's row whose metric it puts in place."""
TABLES = ("table1", "table2", "table3", "table4", "auc")


def _member(name: str) -> Declare:
    about = "A metric with keys, as a member of an ensemble (default: the paper's, on the embedded model)."
    return option(f"--{name}", metavar="METRIC", help=about)


@command("study", example="twmd study stsscore --data-dir data/ -o out/")
@argument("paper", type=click.Choice(["stsscore"]))
@option(
    "--data-dir", type=INPUT_FOLDER, metavar="DIR", help="Holds stsb/, mrpc/, qqp/, wmt22/, as far as you have them."
)
@option("--hub", is_flag=True, help="Read from the Hugging Face Hub what DIR does not hold.")
@option(
    "-o",
    "--output",
    type=FOLDER,
    required=True,
    metavar="DIR",
    help="Tables (text, Markdown, LaTeX, TSV), figures (PNG, SVG, CSV).",
)
@output_format(*RESULT_FORMATS)
@_member("stsscore")
@_member("bertscore")
@_member("sbert")
@run_options
def study_command(arguments: Arguments) -> int:
    """Repeat a paper's analysis: its tables beside the paper's numbers, and its figures. The paper is Herbold 2024
    (stsscore).

    Raises:
        InputError: Neither a folder nor the Hub is named.
        FileError: The folder to write is not empty.
    """
    if not arguments.data_dir and not arguments.hub:
        raise InputError("no data: give --data-dir DIR, --hub, or both.")
    from twmd_registry.papers.experiment import read_experiment
    from twmd_registry.papers.pictures import draw_data_sets
    from twmd_registry.papers.run import reproduce
    from twmd_registry.report.figures import require_matplotlib

    require_matplotlib()
    _check_empty(arguments.output)
    options = options_of(arguments)
    members = {row: given for option, row in MEMBERS.items() if (given := getattr(arguments, option))}
    experiments = [read_experiment(f"{arguments.paper}-{name}", members) for name in TABLES]
    with progress_bar() as progress:
        found = dict(
            zip(
                TABLES,
                reproduce(experiments, arguments.data_dir, hub=arguments.hub, options=options, progress=progress),
                strict=True,
            )
        )
    rated = {name: next(iter(groups.values())) for name, groups in found["table1"].rated.items()}
    sizes = "".join(f"{name}\t{len(own.ratings)}\n" for name, own in rated.items())
    write_file(arguments.output / "data.txt", sizes.encode())
    write_tables(found, arguments.output)
    rows: dict[str, str] = {}
    for table in found.values():
        for setting, signature in zip(table.settings, table.signatures, strict=True):
            rows.setdefault(signature, setting.row)
    signatures = "".join(f"{row}\t{signature}\n" for signature, row in rows.items())
    write_file(arguments.output / "signatures.txt", signatures.encode())
    for name, content in draw_data_sets(found):
        write_file(arguments.output / name, content)
    if arguments.format == "json":
        say(as_json({name: one.as_dict() for name, one in found.items()}))
        return 0
    say("\n\n".join(one.text(SUFFIXES[arguments.format]) for one in found.values()))
    print(f"\n{signatures}", end="")
    return 0


def _check_empty(output: Path) -> None:
    """Refuse a folder with files: those of a run on other data would stay beside the new ones."""
    if output.is_dir() and any(output.iterdir()):
        raise FileError(f"{output} is not empty: give a new folder, so that all files in it are of one run.")
