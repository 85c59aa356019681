"""``twmd cite``: publish scores in a paper or model card."""

from __future__ import annotations

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.record.content import read_record

CITATIONS = ("paper", "sentence", "latex", "bibtex", "markdown", "badge", "eval_results")
DIGITS, TASK = 4, "text-generation"


@command("cite", example="twmd cite scores.json --format latex")
@declare.argument("record", type=declare.INPUT, metavar="RECORD")
@declare.output_format(*CITATIONS, about=": sentences with footnotes in LaTeX, and BibTeX")
@declare.digits(str(DIGITS))
@declare.option("--task", "NAME", f"For eval_results: the Hub's task (default: {TASK}).", default=TASK)
@declare.option("--dataset", "NAME", "For eval_results: the data set's Hub id.")
def cite_command(arguments: Arguments) -> int:
    """Print a record's scores for a paper or model card.

    RECORD is a file written by 'twmd score --record'.
    """
    from twmd_registry.record.citation import cite

    record = read_record(arguments.record)
    digits = DIGITS if arguments.width is None else arguments.width
    print(cite(record, arguments.format, digits=digits, task=arguments.task, dataset=arguments.dataset))
    return 0
