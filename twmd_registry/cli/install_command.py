"""``twmd install`` and ``twmd uninstall``."""

from __future__ import annotations

from twmd_registry.cli.declare import Arguments, command


@command("install", example="twmd install")
def install_command(_arguments: Arguments) -> int:
    """Let every script of this user call evaluate.load('twmd') without importing twmd_registry."""
    from twmd_registry.plugins.evaluate import module_cache

    print(f"installed in {module_cache.install()}")
    print("evaluate asks the Hub first: set HF_EVALUATE_OFFLINE=1 where there is no network.")
    print("'twmd uninstall' removes the modules.")
    return 0


@command("uninstall", example="twmd uninstall")
def uninstall_command(_arguments: Arguments) -> int:
    """Undo 'twmd install'."""
    from twmd_registry.plugins.evaluate import module_cache

    removed = module_cache.uninstall()
    print(f"removed from {module_cache.metrics_cache()}" if removed else "nothing to remove")
    return 0
