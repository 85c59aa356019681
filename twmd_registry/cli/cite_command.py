"""``twmd cite``."""

from __future__ import annotations

from twmd_registry.cli.declare import INPUT, Arguments, argument, command, digits, option, output_format
from twmd_registry.record.file import read_record

FORMATS = ("paper", "sentence", "latex", "bibtex", "markdown", "badge", "eval_results")
DIGITS = 4


@command("cite", example="twmd cite scores.json --format latex")
@argument("record", type=INPUT, metavar="RECORD")
@output_format(*FORMATS, about=": sentences with footnotes in LaTeX, and BibTeX")
@digits(str(DIGITS))
@option(
    "--task",
    default="text-generation",
    metavar="NAME",
    help="For eval_results: the Hub's task (default: text-generation).",
)
@option("--dataset", metavar="NAME", help="For eval_results: the data set's Hub id.")
def cite_command(arguments: Arguments) -> int:
    """Print what a paper or a model card needs to publish a record's scores.

    RECORD is a file that 'twmd score --record' wrote.

    Raises:
        FileError: It is no record, or was edited.
    """
    record = read_record(arguments.record)
    from twmd_registry.report.citation import cite

    digits = arguments.width or DIGITS
    print(cite(record, arguments.format, digits=digits, task=arguments.task, dataset=arguments.dataset))
    return 0
