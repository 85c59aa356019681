"""``twmd hub build`` and ``twmd hub push``."""

from __future__ import annotations

import argparse

from twmd_registry.hub.push import push_space, read_token
from twmd_registry.hub.space import build_space


def run_build(arguments: argparse.Namespace) -> int:
    """Put a Space together, and say how to load it."""
    module = build_space(arguments.metric, arguments.output)
    print(f"built {arguments.output}; load it with evaluate.load({str(module)!r})")
    return 0


def run_push(arguments: argparse.Namespace) -> int:
    """Upload a Space, and say where it is."""
    address = push_space(arguments.metric, arguments.space, token=read_token(arguments.token_file), private=arguments.private)
    print(f"pushed {address}; load it with evaluate.load({arguments.space!r})")
    return 0
