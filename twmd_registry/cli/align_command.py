"""``twmd align``."""

from __future__ import annotations

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.output import as_json, format_table
from twmd_registry.cli.requested import make_scorers, options_of
from twmd_registry.errors import visible

SHOWN_LINKS = 15
COLUMNS = ("hypothesis", "reference", "carries", "similarity")


@command(
    "align", lexical=(), example='twmd align moverscore "It rained all day." "The whole day was rainy." -o plan.png'
)
@declare.metric()
@declare.argument("hypothesis", metavar="HYP")
@declare.argument("reference", metavar="REF")
@declare.output("Draw it: a .png, .svg, .pdf or .html file.", "FILE")
@declare.output_format("text", "json")
@declare.settings
@declare.parts
@declare.run_options
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
    predicted, expected = alignment.hypothesis, alignment.reference
    links = {
        side: [
            (predicted[link.hypothesis], expected[link.reference], link.amount, link.similarity)
            for link in alignment.links(side)
        ]
        for side in alignment.sides
    }
    if arguments.format == "json":
        sides = {side: [dict(zip(COLUMNS, link, strict=True)) for link in links[side]] for side in links}
        print(as_json({"signature": str(scores.signature), "score": scores.score, "sides": sides}))
    else:
        print(scores)
        for side, own in links.items():
            rows = [[visible(token), visible(other), f"{much:.4f}", f"{near:.4f}"] for token, other, much, near in own]
            print(f"\n{side}:\n{format_table(COLUMNS, rows[:SHOWN_LINKS], 'text')}")
            if len(rows) > SHOWN_LINKS:
                print(f"... and {len(rows) - SHOWN_LINKS} more")
    if arguments.output is not None:
        draw(alignment, arguments.output)
        if arguments.format == "text":
            print(f"\nwrote {arguments.output}")
    return 0
