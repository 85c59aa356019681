"""``twmd selfcheck``."""

from __future__ import annotations

import re

from twmd_registry.cli.declare import RESULT_FORMATS, Arguments, command, output_format, run_options
from twmd_registry.cli.output import format_table
from twmd_registry.cli.requested import options_of
from twmd_registry.cli.terminal import Style, matches, progress_bar, say


@command("selfcheck", example="twmd selfcheck")
@output_format(*RESULT_FORMATS)
@run_options
def selfcheck_command(arguments: Arguments) -> int:
    """Compare this installation's scores with the published ones; exit status 1 when a score is off."""
    options = options_of(arguments)
    from twmd_registry.record.selfcheck import TOLERANCE, check

    with progress_bar("metrics") as progress:
        results = check(options, progress)
    rows = [[result.metric, f"{result.worst:.1e}", result.problem or "ok"] for result in results]
    shown = format_table(("metric", "largest difference", "result"), rows, arguments.format)
    say(
        shown,
        matches(r"(?<=  )ok$", Style.GOOD),
        *(matches(re.escape(result.problem), Style.BAD) for result in results if result.problem),
    )
    failed = sum(result.problem is not None for result in results)
    if arguments.format == "text":
        print(
            f"\n{len(results) - failed} of {len(results)} metrics agree with the published scores within {TOLERANCE:g}."
        )
    return 1 if failed else 0
