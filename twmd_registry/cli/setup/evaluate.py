"""``twmd setup evaluate`` and ``uninstall``: metrics that evaluate.load finds without an import."""

from __future__ import annotations

from twmd_registry.cli.declare import Arguments, command
from twmd_registry.plugins import evaluate_hook as hook


@command("evaluate", example="twmd setup evaluate")
def evaluate_command(_arguments: Arguments) -> int:
    """Let every script of this user call evaluate.load('twmd') without importing twmd_registry."""
    print(f"installed in {hook.install()}")
    print("evaluate asks the Hub first: set HF_EVALUATE_OFFLINE=1 where there is no network.")
    print("'twmd setup uninstall' removes the modules.")
    return 0


@command("uninstall", example="twmd setup uninstall")
def uninstall_command(_arguments: Arguments) -> int:
    """Undo 'twmd setup evaluate'."""
    removed = hook.uninstall()
    print(f"removed from {hook.metrics_cache()}" if removed else "nothing to remove")
    return 0
