"""``twmd completion``."""

from __future__ import annotations

import argparse

from twmd_registry.cli.parser import build_parser
from twmd_registry.hub.card_text import metrics_with_card
from twmd_registry.registry.names import LEXICAL_NAMES, SEGMENT_LEXICAL, MetricName
from twmd_registry.registry.presets import presets
from twmd_registry.train.recipe import TRAINABLE

FILES = frozenset({"DATA", "FILE", "FILE.toml|NAME", "HYP", "RECORD", "RECORD|SIGNATURE", "REF"})
FOLDERS = frozenset({"DIR"})
"""Arguments that are files and folders, by what ``--help`` calls them."""

LEXICAL = {
    **dict.fromkeys(("score", "report"), tuple(LEXICAL_NAMES)),
    **dict.fromkeys(("correlate", "robustness"), SEGMENT_LEXICAL),
}
"""SacreBLEU's metrics that a command takes."""


def run(arguments: argparse.Namespace) -> int:
    """Print the script for a shell, with the presets that are here now."""
    import shtab

    parser = build_parser()
    _offer(parser, sorted({name for _, name in presets()}))
    print(shtab.complete(parser, arguments.shell))
    return 0


def _offer(parser: argparse.ArgumentParser, names: list[str]) -> None:
    """Say of every argument of a parser, and of its commands, what may stand there."""
    from shtab import DIRECTORY, FILE

    for action in parser._actions:  # noqa: SLF001 (argparse has no public door to them)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for sub in action.choices.values():
                _offer(sub, names)
        elif action.dest == "preset":
            action.choices = names
        elif action.metavar == "METRIC":
            action.choices = _metrics(parser.prog.removeprefix("twmd "))
        elif action.metavar in FILES or action.metavar in FOLDERS:
            action.complete = FILE if action.metavar in FILES else DIRECTORY  # type: ignore[attr-defined]


def _metrics(command: str) -> list[str]:
    """The metrics that a command takes."""
    if command in {"hub build", "hub push"}:
        return list(metrics_with_card())
    return list(TRAINABLE) if command == "finetune" else [*MetricName, *LEXICAL.get(command, ())]
