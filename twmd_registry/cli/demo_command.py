"""``twmd demo``."""

from __future__ import annotations

import rich_click as click

from twmd_registry.cli.declare import Arguments, MetricParameter, command, option
from twmd_registry.cli.terminal import say


@command("demo", example="twmd demo --metric moverscore --port 8000")
@option(
    "--metric",
    type=MetricParameter(),
    metavar="METRIC",
    help="The metric that is chosen when the page opens (default: twmd).",
)
@option("--port", type=click.IntRange(1, 65_535), metavar="N", help="Default: the first free one from 7860.")
def demo_command(arguments: Arguments) -> int:
    """Serve a page on this machine (127.0.0.1) to try scores: two texts, a file, a signature."""
    from twmd_registry.demo.page import serve

    serve(
        arguments.metric,
        arguments.port,
        lambda address: say(f"serving on {address} (this machine only); Ctrl-C ends it"),
    )
    return 0
