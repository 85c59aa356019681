"""``twmd setup preset``: a user's own presets."""

from __future__ import annotations

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.groups import group
from twmd_registry.cli.output import format_table
from twmd_registry.cli.terminal import say
from twmd_registry.registry.own_presets import add_preset, added_presets, remove_preset
from twmd_registry.registry.presets import presets
from twmd_registry.registry.signature import describe_preset

preset_command = group(
    "preset",
    "Add, list or remove presets of your own.",
    package="twmd_registry.cli.setup",
    sections={"Commands": ("preset", "add list remove")},
    example="twmd setup preset add house.toml",
)


@command("add", example="twmd setup preset add house.toml")
@declare.argument("file", type=declare.FILE, metavar="FILE.toml")
@declare.option("--name", "NAME", "Name of the preset here (default: its name in the file).")
def add_command(arguments: Arguments) -> int:
    """Add a preset from a TOML file, such as one written by 'twmd tune -o DIR'."""
    for preset in add_preset(arguments.file, arguments.name):
        print(f"added {preset.name} for {preset.metric}: {describe_preset(preset)}")
    return 0


@command("list", example="twmd setup preset list")
@declare.output_format(*declare.RESULT_FORMATS)
def list_command(arguments: Arguments) -> int:
    """List the presets that you added; 'twmd explain' lists all."""
    added = [preset for preset in presets().values() if preset.name in added_presets()]
    if not added and arguments.format == "text":
        print("no preset was added here")
        return 0
    rows = [[preset.name, str(preset.metric), describe_preset(preset)] for preset in added]
    say(format_table(("preset", "metric", "signature"), rows, arguments.format))
    return 0


@command("remove", example="twmd setup preset remove house")
@declare.argument("name", metavar="NAME")
def remove_command(arguments: Arguments) -> int:
    """Remove a preset that you added."""
    remove_preset(arguments.name)
    print(f"removed {arguments.name}")
    return 0
