"""``twmd install`` and ``twmd uninstall``."""

from __future__ import annotations

import argparse

from twmd_registry.plugins.evaluate import startup


def run_install(_arguments: argparse.Namespace) -> int:
    """Write the start-up file and say where."""
    print(f"installed {startup.install()}")
    print("Set TWMD_DISABLE=1 to switch it off for one run; 'twmd uninstall' removes it.")
    return 0


def run_uninstall(_arguments: argparse.Namespace) -> int:
    """Remove the start-up file."""
    print(f"removed {startup.startup_file()}" if startup.uninstall() else "nothing to remove")
    return 0
