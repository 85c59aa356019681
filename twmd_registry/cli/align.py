"""``twmd align``: how the score of two texts arises."""

from __future__ import annotations

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.metrics import make_scorers, options_of
from twmd_registry.cli.output import as_json, format_table
from twmd_registry.registry.names import MetricName

SHOWN_LINKS = 15


@command(
    "align",
    sacrebleu=(),
    example='twmd align "It rained all day." "The whole day was rainy." -m moverscore -o plan.png',
)
@declare.argument("hypothesis", metavar="HYP")
@declare.argument("reference", metavar="REF")
@declare.metric("A metric or a signature (default: twmd).", default=[str(MetricName.TWMD)])
@declare.output("Draw the alignment to a .png, .svg, .pdf or .html file.", "FILE")
@declare.output_format("text", "json")
@declare.settings
@declare.parts
@declare.run_options
def align_command(arguments: Arguments) -> int:
    """Show how the score of two texts arises: how much weight each token sends to every other token.

    HYP and REF are texts; with against=source, REF is the source.
    """
    from twmd_registry.engine.alignment import against_of
    from twmd_registry.report.alignment_picture import check_picture_file, draw

    if arguments.output is not None:
        check_picture_file(arguments.output)
    (scorer,) = make_scorers(arguments.requested, options_of(arguments))
    scores = scorer.score([arguments.hypothesis], [[arguments.reference]], [arguments.reference])
    alignment = scores.explain(0)
    shown = alignment.as_dict()
    if arguments.format == "json":
        print(as_json(shown))
    else:
        print(scores)
        columns = ("hypothesis", against_of(alignment), "carries", "similarity")
        for side, links in shown["sides"].items():
            values = [tuple(link.values()) for link in links]
            rows = [(*pair, f"{amount:.4f}", f"{similarity:.4f}") for *pair, amount, similarity in values]
            print(f"\n{side}:\n{format_table(columns, rows[:SHOWN_LINKS], 'text')}")
            if len(rows) > SHOWN_LINKS:
                print(f"... and {len(rows) - SHOWN_LINKS} more")
    if arguments.output is not None:
        draw(alignment, arguments.output)
        if arguments.format == "text":
            print(f"\nwrote {arguments.output}")
    return 0
