"""Groups of commands that import a command when it is used."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import rich_click as click
from rich_click.rich_panel import RichCommandPanel

from twmd_registry.cli.declare import quiet

Sections = Mapping[str, tuple[str, str]]
"""By panel of ``--help``, the module of its commands (``{}`` is replaced by a command's name), and their names."""


class LazyGroup(click.RichGroup):
    """A group that imports a command's module when the command is used.

    Args:
        package: The package of the modules that declare the commands.
        sections: The modules and names of the commands, by panel of ``--help``.
        settings: As for `click.RichGroup`.
    """

    def __init__(self, *, package: str, sections: Sections, **settings: Any) -> None:
        panels = [RichCommandPanel(panel, commands=names.split()) for panel, (_, names) in sections.items()]
        super().__init__(**settings | {"panels": panels})
        self._modules = {
            name: f"{package}.{module.format(name)}" for module, names in sections.values() for name in names.split()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of ``--help``."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; raise UsageError, with the closest name, for an unknown one."""
        if cmd_name not in self._modules:
            if ctx.resilient_parsing:
                return None
            root = ctx.find_root()
            paths = {path[-1]: " ".join(path) for path in _walk(root.command, ctx, (str(root.info_name),))}
            paths["list"] = f"{root.info_name} explain"  # which lists metrics and presets, as --list of SacreBLEU
            paths |= {name: name for name in self._modules}
            closest = difflib.get_close_matches(cmd_name, paths, n=1)
            hints = [f" Did you mean {paths[name]!r}?" for name in closest]
            raise click.UsageError(f"No such command {cmd_name!r}.{''.join(hints)}", ctx)
        module = importlib.import_module(self._modules[cmd_name])
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command


def _walk(command: click.Command | None, ctx: click.Context, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command in a group, the deepest first."""
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(ctx):
        yield from _walk(command.get_command(ctx, name), ctx, (*path, name))
        yield *path, name


def group(name: str, about: str, *, package: str, sections: Sections, example: str, start: str = "") -> LazyGroup:
    """Declare a group of commands. Without a command it prints `start`, or its help."""

    @click.group(
        name,
        cls=LazyGroup,
        package=package,
        sections=sections,
        invoke_without_command=True,
        help=about,
        epilog=f"Example: {example}",
    )
    @quiet
    @click.pass_context
    def print_help(context: click.Context) -> None:
        if context.invoked_subcommand is None:
            click.echo(start or context.get_help())
            context.exit(click.UsageError.exit_code)

    return print_help
