"""``twmd setup completion``: shell completion."""

from __future__ import annotations

import rich_click as click
from click.shell_completion import get_completion_class

from twmd_registry.cli import COMPLETION, declare, twmd
from twmd_registry.cli.declare import Arguments, command


@command(
    "completion",
    example=(
        "twmd setup completion bash > ~/.local/share/bash-completion/completions/twmd\n"
        "twmd setup completion zsh > ~/.zfunc/_twmd"
    ),
)
@declare.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(arguments: Arguments) -> int:
    """Print a script that lets a shell complete commands, options, metrics, presets and files of twmd."""
    shell = get_completion_class(arguments.shell)
    if shell is not None:
        print(shell(twmd, {}, "twmd", COMPLETION).source())
    return 0
