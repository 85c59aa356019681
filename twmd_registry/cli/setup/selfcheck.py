"""``twmd setup selfcheck``: compare this installation's scores with published ones."""

from __future__ import annotations

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.metrics import options_of
from twmd_registry.cli.output import format_table
from twmd_registry.cli.terminal import progress_bar, say


@command("selfcheck", example="twmd setup selfcheck")
@declare.output_format(*declare.RESULT_FORMATS)
@declare.placement
def selfcheck_command(arguments: Arguments) -> int:
    """Compare this installation's scores with published ones; exit status 1 if a score is off."""
    options = options_of(arguments)
    from twmd_registry.record.selfcheck import TOLERANCE, check

    with progress_bar("metrics") as progress:
        results = check(options, progress)
    exact = arguments.format == "json"
    rows = [[one.name, one.difference if exact else f"{one.difference:.1e}", one.problem or "ok"] for one in results]
    agreeing = sum(one.problem is None for one in results)
    say(format_table(("metric", "largest_difference", "result"), rows, arguments.format))
    if arguments.format == "text":
        print(f"\n{agreeing} of {len(results)} settings agree with the published scores within {TOLERANCE:g}.")
    return 0 if agreeing == len(results) else 1
