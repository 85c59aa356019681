"""``twmd train``."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from twmd_registry.cli.declare import DATA, FOLDER, Arguments, argument, command, option
from twmd_registry.errors import SpecError


@command("train", example="twmd train stsb --data stsb:stsb/ -o adapter/")
@argument("task", type=click.Choice(["stsb"]))
@option("--data", type=DATA, required=True, metavar="stsb:DIR", help="A folder with train.csv and dev.csv.")
@option("-o", "--output", type=FOLDER, required=True, metavar="DIR", help="Where the adapter is written.")
def train_command(arguments: Arguments) -> int:
    """Train the adapter of STSScore on the STS benchmark.

    Raises:
        SpecError: ``--data`` is not ``stsb:DIR``.
    """
    form, _, folder = arguments.data.partition(":")
    if form != arguments.task or not folder:
        raise SpecError(f"--data {arguments.data}: expected {arguments.task}:DIR, a folder with train.csv and dev.csv.")
    from twmd_registry.train.stsb import train_stsb

    signature, pearson = train_stsb(Path(folder).expanduser(), arguments.output)
    print(f"Pearson on dev {pearson:.4f}\nuse --set adapter={arguments.output}\nsignature {signature}")
    return 0
