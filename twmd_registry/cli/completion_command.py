"""``twmd completion``, and the completion of words after an option that takes several."""

from __future__ import annotations

import os
import sys

import rich_click as click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    shell_complete,
)

from twmd_registry.cli import COMPLETION
from twmd_registry.cli.declare import Arguments, argument, command, repeat_options
from twmd_registry.errors import TwmdError


class _CompletesManyWords(ShellComplete):
    """Completes each word after an option of several words as a value of that option."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        if isinstance(self.cli, click.Group):
            context = click.Context(self.cli)
            at = next((i for i, word in enumerate(args) if word in self.cli.list_commands(context)), len(args))
            chosen = self.cli.get_command(context, args[at]) if at < len(args) else None
            if chosen is not None:
                args = [*args[: at + 1], *repeat_options(chosen, [*args[at + 1 :], ""])[:-1]]
        try:
            return super().get_completions(args, incomplete)
        except TwmdError:  # a file that is not there yet: nothing is offered, and nothing is printed into the prompt
            return []


class _Bash(_CompletesManyWords, BashComplete):
    pass


class _Zsh(_CompletesManyWords, ZshComplete):
    pass


class _Fish(_CompletesManyWords, FishComplete):
    pass


SHELLS = {one.name: one for one in (_Bash, _Zsh, _Fish)}
for _shell in SHELLS.values():
    add_completion_class(_shell)


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
@argument("shell", type=click.Choice(list(SHELLS)))
def completion_command(arguments: Arguments) -> int:
    """Print a script that lets a shell complete commands, options, metrics, presets and files of twmd."""
    from twmd_registry.cli.commands import twmd

    print(SHELLS[arguments.shell](twmd, {}, "twmd", COMPLETION).source())
    return 0
