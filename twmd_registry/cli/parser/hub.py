"""``hub``: the metrics' Spaces."""

from __future__ import annotations

import argparse
from pathlib import Path

from twmd_registry.cli.parser.arguments import Commands, command, example_of, later, quiet


def add_hub(commands: Commands) -> None:
    """Add ``twmd hub build`` and ``twmd hub push``."""
    about = "Build a metric's Hugging Face Space, or push it to the Hub."
    hub = commands.add_parser("hub", help=about, description=about, **example_of("twmd hub build moverscore -o spaces/moverscore"))
    quiet(hub, default=argparse.SUPPRESS)  # as in `command`
    actions = hub.add_subparsers(title="actions", metavar="ACTION", required=True)
    build = command(
        actions,
        "build",
        later("hub", "run_build"),
        "Put a metric's Space together in a folder: card, page, requirements and evaluate module. Needs no network and no token.",
        "twmd hub build twmd -o spaces/twmd",
    )
    build.add_argument("metric", metavar="METRIC", help="a metric with a card")
    build.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="a new or empty folder")
    push = command(
        actions,
        "push",
        later("hub", "run_push"),
        "Build a metric's Space and upload it to the Hub, with the token of HF_TOKEN or 'hf auth login'.",
        "twmd hub push twmd my-org/twmd --private",
    )
    push.add_argument("metric", metavar="METRIC", help="a metric with a card")
    push.add_argument("space", metavar="ORG/NAME", help="the Space; created when it is not there")
    push.add_argument("--private", action="store_true", help="create it so that only its owner sees it")
    push.add_argument("--token-file", type=Path, metavar="FILE", help="a file that holds the token, instead of the environment")
