"""``twmd demo``."""

from __future__ import annotations

import argparse

from twmd_registry.cli.terminal import say


def run(arguments: argparse.Namespace) -> int:
    """Serve the page until it is interrupted."""
    from twmd_registry.demo.page import serve

    serve(arguments.metric, arguments.port, lambda address: say(f"serving on {address} (this machine only); Ctrl-C ends it"))
    return 0
