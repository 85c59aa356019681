"""``twmd demo``."""

from __future__ import annotations

import argparse


def run(arguments: argparse.Namespace) -> int:
    """Serve the page until it is interrupted."""
    from twmd_registry.demo.page import serve

    serve(arguments.metric, arguments.port)
    return 0
