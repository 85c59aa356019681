"""From the arguments of a command to run options."""

from __future__ import annotations

import argparse

from twmd_registry.registry.options import RunOptions


def options_of(arguments: argparse.Namespace) -> RunOptions:
    """Where and how fast, as the command line says.

    Raises:
        SpecError: ``--disk-cache`` is no number of bytes.
    """
    return RunOptions(device=arguments.device, batch_tokens=arguments.batch_tokens, disk_cache=arguments.disk_cache)
