"""The command `twmd`: its commands by panel, each imported when it is used."""

from __future__ import annotations

import importlib
from itertools import chain

import rich_click as click
from rich_click.rich_panel import RichCommandPanel

from twmd_registry.cli.declare import quiet
from twmd_registry.errors import menu
from twmd_registry.version import __version__

PANELS = {
    "Score": {"score_command": ["score"], "report_commands": ["report", "align"]},
    "Publish": {"publish_commands": ["verify", "diff", "cite"]},
    "Agreement with people": {
        "agreement_commands": ["correlate", "robustness", "tune", "diagnose"],
        "paper_commands": ["study", "reproduce"],
    },
    "Training": {
        "train_commands": ["fit-mean", "fit-idf", "fit-baseline", "train", "finetune", "average"],
    },
    "Set up": {
        "catalogue_commands": ["list", "explain", "preset"],
        "setup_commands": ["cache", "selfcheck", "demo", "hub", "install", "uninstall", "completion"],
    },
}
"""From a panel of ``--help`` to the modules that declare and run its commands."""
MODULES = {name: module for panel in PANELS.values() for module, names in panel.items() for name in names}


class LazyGroup(click.RichGroup):
    """A group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of ``--help``."""
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None for an unknown name."""
        if cmd_name not in MODULES:
            return None
        module = importlib.import_module(f"twmd_registry.cli.{MODULES[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names; the error for an unknown one has the closest name."""
        if args[0] not in MODULES and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {args[0]!r}; {menu(args[0], MODULES)}.")
        return super().resolve_command(ctx, args)


@click.group(
    "twmd",
    cls=LazyGroup,
    invoke_without_command=True,
    panels=[RichCommandPanel(panel, commands=[*chain(*modules.values())]) for panel, modules in PANELS.items()],
    help="Embedding metrics for generated text, with signatures that anybody can re-run.",
    epilog="Example: twmd score ref.txt -i system_a.txt system_b.txt -m twmd moverscore",
)
@click.version_option(__version__, prog_name="twmd", message="%(prog)s %(version)s")
@quiet
@click.pass_context
def twmd(ctx: click.Context) -> None:
    """Print the help where no command is given."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(click.UsageError.exit_code)
