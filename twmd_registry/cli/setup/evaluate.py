"""``twmd setup evaluate`` and ``uninstall``: let evaluate.load find our metrics without an import."""

from __future__ import annotations

import shutil

from twmd_registry.cli.declare import Arguments, command
from twmd_registry.plugins import evaluate_hook as hook
from twmd_registry.registry.paths import home


@command("evaluate", example="twmd setup evaluate")
def evaluate_command(_arguments: Arguments) -> int:
    """Let every script of this user call evaluate.load('twmd') without importing twmd_registry."""
    print(f"installed in {hook.install()}")
    print("evaluate queries the Hub first: set HF_EVALUATE_OFFLINE=1 if there is no network.")
    print("'twmd setup uninstall' removes the modules.")
    return 0


@command("uninstall", example="twmd setup uninstall")
def uninstall_command(_arguments: Arguments) -> int:
    """Remove what this package has written outside itself: modules of evaluate, models built from packages.

    Your own presets and fits are kept; their folder is named.
    """
    from twmd_registry.models.assembled import model_folders

    removed = [f"the modules in {hook.metrics_cache()}"] if hook.uninstall() else []
    if model_folders().is_dir():
        shutil.rmtree(model_folders())
        removed.append(f"the models in {model_folders()}")
    if home().is_dir() and not any(path.is_file() for path in home().rglob("*")):
        shutil.rmtree(home())
    print(f"removed: {', '.join(removed)}" if removed else "nothing to remove")
    if home().is_dir():
        print(f"kept: your own presets and fits in {home()}; remove the folder if you do not need them")
    return 0
