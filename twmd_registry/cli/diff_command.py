"""``twmd diff``."""

from __future__ import annotations

from twmd_registry.cli.declare import Arguments, argument, command, output_format
from twmd_registry.cli.output import as_json
from twmd_registry.errors import visible
from twmd_registry.registry.diff import compare

MARKS = {True: "-", False: "=", None: "?"}


@command("diff", example="twmd diff 'twmd|output:f1|...' 'twmd|output:recall|...'")
@argument("one", metavar="SIGNATURE")
@argument("other", metavar="SIGNATURE")
@output_format("text", "json")
def diff_command(arguments: Arguments) -> int:
    """Say how two signatures differ, and whether their numbers may be compared (exit status 0) or not (1)."""
    found = compare(arguments.one, arguments.other)
    if arguments.format == "json":
        differences = [difference._asdict() for difference in found.differences]
        print(as_json({"comparable": found.comparable, "certain": found.certain, "differences": differences}))
        return 0 if found.comparable else 1
    if not found.differences:
        print("The signatures are the same.")
    for difference in found.differences:
        print(f"{MARKS[difference.matters]} {visible(difference.what)}")
    if not found.comparable:
        print("\nTheir numbers may NOT be compared.")
        return 1
    print(
        "\nTheir numbers may be compared (on the same "
        f"texts{'' if found.certain else ', and if the model was the same'})."
    )
    return 0
