"""Commands for an installation: ``twmd cache, selfcheck, demo, hub, install, uninstall`` and ``completion``."""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import rich_click as click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
)

from twmd_registry.cli import COMPLETION, declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.output import as_json, format_table
from twmd_registry.cli.requested import options_of
from twmd_registry.cli.terminal import Style, matches, progress_bar, say
from twmd_registry.errors import FileError, SpecError, TwmdError, menu
from twmd_registry.hub import metrics_with_card
from twmd_registry.registry.names import SHORT_NAMES, MetricName

if TYPE_CHECKING:
    from twmd_registry.encode.disk import ModelUse


@command("cache", example="twmd cache clear --model embedded")
@declare.argument("action", type=click.Choice(["ls", "clear"]))
@declare.option("--model", "NAME", "Of this model only.")
@declare.output_format(*declare.RESULT_FORMATS)
def cache_command(arguments: Arguments) -> int:
    """List or remove the encoded texts that '--disk-cache SIZE' keeps."""
    from twmd_registry.encode.disk import cache_folder, clear, list_models

    folder, form = cache_folder(), arguments.format
    try:
        uses = _uses_of(arguments.model, list_models(folder))
        if arguments.action == "clear":
            clear(folder, [use.model for use in uses])
    except OSError as error:
        raise FileError(f"the disk cache in {folder} cannot be used: {error}.") from error
    if form == "json":  # of the models that were listed, or removed
        say(as_json([use._asdict() | {"used": _format_time(use.used)} for use in uses]))
        return 0
    size = f"{sum(use.texts for use in uses)} texts, {sum(use.bytes for use in uses) / 1e6:.1f} MB"
    if arguments.action == "clear":
        print(f"removed {size}, from {folder}")
        return 0
    if form == "text":
        print(f"{folder}: {size} (each run brings its own bound: --disk-cache SIZE)")
    if uses or form != "text":
        # For people, minutes of local time are enough; a model's name needs the room.
        times = [_format_time(use.used)[: 16 if form == "text" else None] for use in uses]
        rows = [
            [use.model, use.texts, use.shards, f"{use.bytes / 1e6:.1f}", time]
            for use, time in zip(uses, times, strict=True)
        ]
        say(format_table(("model", "texts", "files", "MB", "last used"), rows, form))
    return 0


def _uses_of(name: str | None, uses: list[ModelUse]) -> list[ModelUse]:
    """Select a model by its name alone, with its content, or as the list shows it."""
    if name is None:
        return uses
    name = SHORT_NAMES.get(name, name)
    chosen = [use for use in uses if use.model == name or use.model.startswith((f"{name}@", f"{name} "))]
    if not chosen:
        choices = menu(name, [use.model for use in uses]) if uses else "the cache is empty"
        raise SpecError(f"nothing is kept of a model {name!r}; {choices}.")
    return chosen


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(" ", "seconds")


@command("selfcheck", example="twmd selfcheck")
@declare.output_format(*declare.RESULT_FORMATS)
@declare.run_options
def selfcheck_command(arguments: Arguments) -> int:
    """Compare this installation's scores with the published ones; exit status 1 when a score is off."""
    options = options_of(arguments)
    from twmd_registry.record.selfcheck import TOLERANCE, check

    with progress_bar("metrics") as progress:
        results = check(options, progress)
    rows = [[result.metric, f"{result.worst:.1e}", result.problem or "ok"] for result in results]
    problems = [result.problem for result in results if result.problem is not None]
    bad = [matches(re.escape(problem), Style.BAD) for problem in problems]
    table = format_table(("metric", "largest difference", "result"), rows, arguments.format)
    say(table, matches(r"(?<=  )ok$", Style.GOOD), *bad)
    if arguments.format == "text":
        good = f"{len(results) - len(problems)} of {len(results)} metrics"
        print(f"\n{good} agree with the published scores within {TOLERANCE:g}.")
    return 1 if problems else 0


OPENED = "The metric that is chosen when the page opens (default: twmd)."


@command("demo", example="twmd demo --metric moverscore --port 8000")
@declare.option("--metric", "METRIC", OPENED, shell_complete=declare.offer(MetricName))
@declare.option("--port", "N", "Default: the first free one from 7860.", type=click.IntRange(1, 65_535))
def demo_command(arguments: Arguments) -> int:
    """Serve a page on this machine (127.0.0.1) to try scores: two texts, a file, a signature."""
    from twmd_registry.demo.page import serve

    def announce(address: str) -> None:
        say(f"serving on {address} (this machine only); Ctrl-C ends it")

    serve(arguments.metric, arguments.port, announce)
    return 0


@click.group("hub", no_args_is_help=False, epilog="Example: twmd hub build moverscore -o spaces/moverscore")
@declare.quiet
def hub_command() -> None:
    """Build a metric's Hugging Face Space, or push it to the Hub."""


@command("build", example="twmd hub build twmd -o spaces/twmd")
@declare.metric(metrics_with_card())
@declare.output("A new or empty folder.", required=True)
def build_command(arguments: Arguments) -> int:
    """Put a metric's Space together in a folder: card, page, requirements and evaluate module. Needs no network and no
    token.
    """
    from twmd_registry.hub.space import build_space

    module = build_space(arguments.metric, arguments.output)
    print(f"built {arguments.output}; load it with evaluate.load({str(module)!r})")
    return 0


@command("push", example="twmd hub push twmd my-org/twmd --private")
@declare.metric(metrics_with_card())
@declare.argument("space", metavar="ORG/NAME")
@declare.flag("--private", "Create it so that only its owner sees it.")
@declare.option("--token-file", "FILE", "A file that holds the token, instead of the environment.")
def push_command(arguments: Arguments) -> int:
    """Build a metric's Space and upload it to the Hub, with the token of HF_TOKEN or 'hf auth login'.

    The Space ORG/NAME is created when it is not there.
    """
    from twmd_registry.hub.space import push_space, read_token

    token = read_token(arguments.token_file)
    address = push_space(arguments.metric, arguments.space, token=token, private=arguments.private)
    print(f"pushed {address}; load it with evaluate.load({arguments.space!r})")
    return 0


hub_command.add_command(build_command)
hub_command.add_command(push_command)


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


class ManyWordsCompletion(ShellComplete):
    """Completes each word after an option of several words as a value of that option."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return the words that may stand at the cursor."""
        if isinstance(self.cli, click.Group):
            context = click.Context(self.cli)
            names = self.cli.list_commands(context)
            at = next((i for i, word in enumerate(args) if word in names), len(args))
            chosen = self.cli.get_command(context, args[at]) if at < len(args) else None
            if chosen is not None:
                args = [*args[: at + 1], *declare.repeat_options(chosen, [*args[at + 1 :], ""])[:-1]]
        try:
            return super().get_completions(args, incomplete)
        except TwmdError:  # a file that is not there yet: an error in the prompt would help nobody
            return []


for _shell in (BashComplete, ZshComplete, FishComplete):
    add_completion_class(type(_shell.__name__, (ManyWordsCompletion, _shell), {}))


def complete() -> None:
    """Print the completions that a shell asks for in the environment, and exit."""
    from twmd_registry.cli.commands import twmd

    sys.exit(shell_complete(twmd, {}, "twmd", COMPLETION, os.environ[COMPLETION]))


@command(
    "completion",
    example=(
        "twmd completion bash > ~/.local/share/bash-completion/completions/twmd\ntwmd completion zsh > ~/.zfunc/_twmd"
    ),
)
@declare.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(arguments: Arguments) -> int:
    """Print a script that lets a shell complete commands, options, metrics, presets and files of twmd."""
    from twmd_registry.cli.commands import twmd

    shell = get_completion_class(arguments.shell)
    if shell is not None:
        print(shell(twmd, {}, "twmd", COMPLETION).source())
    return 0
