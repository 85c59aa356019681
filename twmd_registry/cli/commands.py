"""The command `twmd`: its commands by panel, each imported when it is used."""

from __future__ import annotations

import importlib

import rich_click as click
from rich_click.rich_panel import RichCommandPanel

from twmd_registry.errors import menu
from twmd_registry.version import __version__

PANELS = {
    "Score": ("score", "report", "align"),
    "Publish": ("verify", "diff", "cite"),
    "Agreement with people": ("correlate", "robustness", "tune", "diagnose", "study", "reproduce"),
    "Training": ("fit-mean", "fit-idf", "fit-baseline", "train", "finetune", "average"),
    "Set up": ("list", "explain", "preset", "cache", "selfcheck", "demo", "hub", "install", "uninstall", "completion"),
}
"""From a panel of ``--help`` to its commands. `NAME_command` is declared and run in ``NAME_command.py``."""
SHARED = {"fit-mean": "fit", "fit-idf": "fit", "fit-baseline": "fit", "uninstall": "install"}
"""Commands that share a module with others."""
COMMANDS = tuple(name for names in PANELS.values() for name in names)


class LazyGroup(click.RichGroup):
    """A group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of ``--help``."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"twmd_registry.cli.{SHARED.get(cmd_name, cmd_name)}_command")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names.

        Raises:
            click.UsageError: There is none of that name; the message has the closest one.
        """
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {args[0]!r}; {menu(args[0], COMMANDS)}.")
        return super().resolve_command(ctx, args)


@click.group(
    "twmd",
    cls=LazyGroup,
    invoke_without_command=True,
    panels=[RichCommandPanel(panel, commands=list(names)) for panel, names in PANELS.items()],
    help="Embedding metrics for generated text, with signatures that anybody can re-run.",
    epilog="Example: twmd score ref.txt -i system_a.txt system_b.txt -m twmd moverscore",
)
@click.version_option(__version__, prog_name="twmd", message="%(prog)s %(version)s")
@click.option("-q", "--quiet", is_flag=True, help="No warnings, notices and progress bars; results and errors stay.")
@click.pass_context
def twmd(ctx: click.Context, *, quiet: bool) -> None:  # noqa: ARG001 (commands read it from the context)
    """Print the help where no command is given."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(click.UsageError.exit_code)
