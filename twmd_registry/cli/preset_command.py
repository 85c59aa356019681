"""``twmd preset``."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from twmd_registry.cli.declare import Arguments, argument, command, option
from twmd_registry.errors import SpecError
from twmd_registry.registry.own_presets import add_preset, remove_preset
from twmd_registry.registry.signature import canonical


@command("preset", example="twmd preset add house.toml")
@argument("action", type=click.Choice(["add", "remove"]))
@argument("what", type=click.Path(), metavar="FILE.toml|NAME")
@option("--name", metavar="NAME", help="add: what the preset is called here (default: as in the file).")
def preset_command(arguments: Arguments) -> int:
    """Add a preset of your own from a TOML file, or remove one by its name.

    Raises:
        SpecError: ``--name`` where a preset is removed.
    """
    if arguments.action == "remove":
        if arguments.name is not None:
            raise SpecError("--name is for preset add: name the preset to remove in place of the file.")
        remove_preset(arguments.what)
        print(f"removed {arguments.what}")
        return 0
    for preset in add_preset(Path(arguments.what), arguments.name):
        print(f"added {preset.name} for {preset.metric}: {canonical(preset)}")
    return 0
