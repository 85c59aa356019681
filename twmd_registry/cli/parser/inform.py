"""``list``, ``explain``, ``preset``, ``selfcheck``, ``demo``, ``install``, ``completion``: what is here."""

from __future__ import annotations

from twmd_registry.cli.parser.arguments import Commands, command, later, port, where
from twmd_registry.registry.names import MetricName


def add_list(commands: Commands) -> None:
    """Add ``twmd list``."""
    sub = command(commands, "list", later("inform", "run_list"), "List metrics, presets and what works offline.", "twmd list --signatures")
    sub.add_argument("--signatures", action="store_true", help="print the canonical signature of every preset of every metric, and nothing else")


def add_explain(commands: Commands) -> None:
    """Add ``twmd explain``."""
    sub = command(commands, "explain", later("inform", "run_explain"), "Explain a metric, its keys, presets and citation.", "twmd explain twmd")
    sub.add_argument("metric", metavar="METRIC", help=", ".join(MetricName))


def add_preset(commands: Commands) -> None:
    """Add ``twmd preset``."""
    sub = command(commands, "preset", later("inform", "run_preset"), "Add a preset of your own, or take it away.", "twmd preset add house.toml")
    sub.add_argument("action", choices=("add", "remove"))
    sub.add_argument("what", metavar="FILE.toml|NAME", help="add: a TOML file with one preset; remove: a preset's name")
    sub.add_argument("--name", metavar="NAME", help="add: what the preset is called here (default: as in the file)")


def add_cache(commands: Commands) -> None:
    """Add ``twmd cache``."""
    about = "List or remove the encoded texts that '--disk-cache SIZE' keeps."
    sub = command(commands, "cache", later("cache", "run_cache"), about, "twmd cache clear --model embedded")
    sub.add_argument("action", choices=("ls", "clear"))
    sub.add_argument("--model", metavar="NAME", help="of this model only")


def add_selfcheck(commands: Commands) -> None:
    """Add ``twmd selfcheck``."""
    sub = command(
        commands, "selfcheck", later("inform", "run_selfcheck"), "Compare this installation's scores with the published ones.", "twmd selfcheck"
    )
    where(sub)


def add_demo(commands: Commands) -> None:
    """Add ``twmd demo``."""
    about = "Serve a page on this machine (127.0.0.1) to try scores: two texts, a file, a signature."
    sub = command(commands, "demo", later("demo", "run"), about, "twmd demo --metric moverscore --port 8000")
    sub.add_argument("--metric", metavar="METRIC", help="the metric that is chosen when the page opens (default: twmd)")
    sub.add_argument("--port", type=port, metavar="N", help="default: the first free one from 7860")


def add_install(commands: Commands) -> None:
    """Add ``twmd install`` and ``twmd uninstall``."""
    about = "Let every script of this environment say evaluate.load('twmd'), without importing twmd_registry."
    command(commands, "install", later("setup", "run_install"), about, "twmd install")
    command(commands, "uninstall", later("setup", "run_uninstall"), "Take back what 'twmd install' did.", "twmd uninstall")


def add_completion(commands: Commands) -> None:
    """Add ``twmd completion``."""
    about = "Print a script that lets a shell complete commands, options, metrics, presets and files of twmd."
    example = "twmd completion bash > ~/.local/share/bash-completion/completions/twmd\n  twmd completion zsh > ~/.zfunc/_twmd"
    sub = command(commands, "completion", later("completion", "run"), about, example)
    sub.add_argument("shell", choices=("bash", "zsh"))
