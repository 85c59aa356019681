"""``twmd align``."""

from __future__ import annotations

import argparse

from tabulate import tabulate

from twmd_registry.cli.options import make_scorers, options_of
from twmd_registry.engine.result import Alignment
from twmd_registry.errors import visible
from twmd_registry.report.picture import draw, writer_of

SHOWN_LINKS = 15


def run(arguments: argparse.Namespace) -> int:
    """Align one pair; print what carries most, and draw it."""
    if arguments.output is not None:
        writer_of(arguments.output)
    (scorer,) = make_scorers(arguments.asked, options_of(arguments))
    found = scorer.score([arguments.hypothesis], [[arguments.reference]])
    alignment = found.explain(0)
    print(found)
    for side in alignment.sides:
        print(f"\n{side}:\n{_links(alignment, side)}")
    if arguments.output is not None:
        draw(alignment, arguments.output)
        print(f"\nwrote {arguments.output}")
    return 0


def _links(alignment: Alignment, side: str) -> str:
    links = alignment.links(side)
    rows = [
        [visible(alignment.hypothesis[link.hypothesis]), visible(alignment.reference[link.reference]), f"{link.amount:.4f}", f"{link.similarity:.4f}"]
        for link in links[:SHOWN_LINKS]
    ]
    more = f"\n... and {len(links) - SHOWN_LINKS} more" if len(links) > SHOWN_LINKS else ""
    return tabulate(rows, headers=["hypothesis", "reference", "carries", "similarity"], disable_numparse=True) + more
