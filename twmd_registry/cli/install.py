"""``twmd install`` and ``twmd uninstall``."""

from __future__ import annotations

from twmd_registry.cli.declare import Arguments, command


@command("install", example="twmd install")
def install_command(_arguments: Arguments) -> int:
    """Let every script of this environment call evaluate.load('twmd') without importing twmd_registry."""
    from twmd_registry.plugins.evaluate import startup

    print(f"installed {startup.install()}")
    print("Set TWMD_DISABLE=1 to switch it off for one run; 'twmd uninstall' removes it.")
    return 0


@command("uninstall", example="twmd uninstall")
def uninstall_command(_arguments: Arguments) -> int:
    """Undo 'twmd install'."""
    from twmd_registry.plugins.evaluate import startup

    print(f"removed {startup.startup_file()}" if startup.uninstall() else "nothing to remove")
    return 0
