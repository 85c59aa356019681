"""``twmd diff``: compare two signatures."""

from __future__ import annotations

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.output import as_json
from twmd_registry.messages import visible
from twmd_registry.registry.diff import compare_signatures

MARKS = {True: "-", False: "=", None: "?"}


@command("diff", example="twmd diff 'twmd|output:f1|...' 'twmd|output:recall|...'")
@declare.argument("one", metavar="SIGNATURE")
@declare.argument("other", metavar="SIGNATURE")
@declare.output_format("text", "json")
def diff_command(arguments: Arguments) -> int:
    """Show how two signatures differ, and whether their scores are comparable (exit status 0) or not (1)."""
    comparison = compare_signatures(arguments.one, arguments.other)
    if arguments.format == "json":
        verdict = {"comparable": comparison.comparable, "certain": comparison.certain}
        differences = [{"what": what, "matters": matters} for what, matters in comparison.differences]
        print(as_json(verdict | {"differences": differences}))
        return 0 if comparison.comparable else 1
    if not comparison.differences:
        print("The signatures are the same.")
    for what, matters in comparison.differences:
        print(f"{MARKS[matters]} {visible(what)}")
    if not comparison.comparable:
        print("\nTheir numbers may NOT be compared.")
        return 1
    model = "" if comparison.certain else ", and if the model was the same"
    print(f"\nTheir numbers may be compared (on the same texts{model}).")
    return 0
