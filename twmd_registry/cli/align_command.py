"""``twmd align``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twmd_registry.cli.declare import (
    FILE,
    Arguments,
    MetricParameter,
    argument,
    command,
    option,
    output_format,
    parts,
    run_options,
    settings,
)
from twmd_registry.cli.output import as_json, format_table
from twmd_registry.cli.requested import make_scorers, options_of
from twmd_registry.errors import visible

if TYPE_CHECKING:
    from twmd_registry.engine.result import Alignment

SHOWN_LINKS = 15
COLUMNS = ("hypothesis", "reference", "carries", "similarity")


@command(
    "align", lexical=(), example='twmd align moverscore "It rained all day." "The whole day was rainy." -o plan.png'
)
@argument("metric", type=MetricParameter(), metavar="METRIC")
@argument("hypothesis", metavar="HYP")
@argument("reference", metavar="REF")
@option("-o", "--output", type=FILE, metavar="FILE", help="Draw it: a .png, .svg, .pdf or .html file.")
@output_format("text", "json")
@settings
@parts
@run_options
def align_command(arguments: Arguments) -> int:
    """Show how the score of two texts comes about: which token carries how much to which.

    METRIC is a metric or a signature, HYP and REF are texts.
    """
    from twmd_registry.report.alignment_picture import check_picture_file, draw

    if arguments.output is not None:
        check_picture_file(arguments.output)
    (scorer,) = make_scorers(arguments.asked, options_of(arguments))
    scores = scorer.score([arguments.hypothesis], [[arguments.reference]])
    alignment = scores.explain(0)
    if arguments.format == "json":
        links = {
            side: [dict(zip(COLUMNS, row, strict=True)) for row in _links(alignment, side)] for side in alignment.sides
        }
        print(as_json({"signature": str(scores.signature), "score": scores.score, "sides": links}))
    else:
        print(scores)
        for side in alignment.sides:
            print(f"\n{side}:\n{_format_links(_links(alignment, side))}")
    if arguments.output is not None:
        draw(alignment, arguments.output)
        if arguments.format == "text":
            print(f"\nwrote {arguments.output}")
    return 0


def _links(alignment: Alignment, side: str) -> list[tuple[str, str, float, float]]:
    tokens = alignment.hypothesis, alignment.reference
    return [
        (tokens[0][link.hypothesis], tokens[1][link.reference], link.amount, link.similarity)
        for link in alignment.links(side)
    ]


def _format_links(links: list[tuple[str, str, float, float]]) -> str:
    rows = [
        [visible(hypothesis), visible(reference), f"{amount:.4f}", f"{similarity:.4f}"]
        for hypothesis, reference, amount, similarity in links
    ]
    more = f"\n... and {len(links) - SHOWN_LINKS} more" if len(links) > SHOWN_LINKS else ""
    return format_table(COLUMNS, rows[:SHOWN_LINKS], "text") + more
