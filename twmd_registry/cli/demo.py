"""``twmd demo``: a page to try scores."""

from __future__ import annotations

import rich_click as click

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.terminal import say

OPENED = "Metric to show first (default: twmd)."


@command("demo", example="twmd demo -m moverscore --port 8000")
@declare.metric(OPENED)
@declare.option("--port", "N", "Port (default: the first free port from 7860).", type=click.IntRange(1, 65_535))
def demo_command(arguments: Arguments) -> int:
    """Serve a page on this machine (127.0.0.1) to try scores: two texts, a file, a signature."""
    from twmd_registry.demo.page import serve

    metric = next(iter(arguments.metrics), None)
    serve(metric, arguments.port, lambda url: say(f"serving on {url} (this machine only); Ctrl-C ends it"))
    return 0
