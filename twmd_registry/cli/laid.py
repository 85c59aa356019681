"""Printing and writing what was computed again, and its pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from twmd_registry.cli.files import write_file
from twmd_registry.cli.terminal import say
from twmd_registry.metaeval.reproduce.layout import ComputedTable
from twmd_registry.report.figures import SUFFIXES


def show(found: ComputedTable, output: Path | None) -> int:
    """Print a table and what it says of the paper's; write every form of it, and the signatures, where that was asked for.

    Args:
        found: The table.
        output: A folder; None to write nothing.
    """
    if output:
        forms = {
            "txt": f"{found.text()}\n\n{found.sentence}",
            "md": f"{found.markdown()}\n\n{found.sentence}",
            "tex": found.latex(),
            "tsv": found.tsv(),
        }
        for suffix, content in forms.items():
            write_file(output / f"{found.table}.{suffix}", f"{content}\n".encode())
        signatures = "".join(f"{row}\t{signature}\n" for row, signature in found.signatures.items())
        write_file(output / f"{found.table}-signatures.tsv", signatures.encode())
    say(f"{found.text()}\n\n{found.sentence}")
    return 0


def write_pictures(output: Path, name: str, csv: bytes, draw: Callable[[str], bytes]) -> None:
    """Write a figure in every format, with its data beside it.

    Args:
        output: The folder.
        name: Of the figure.
        csv: Its data.
        draw: From a suffix to the picture.
    """
    write_file(output / f"{name}.csv", csv)
    for suffix in SUFFIXES:
        write_file(output / f"{name}{suffix}", draw(suffix))
