"""What the arguments of several commands share."""

from __future__ import annotations

import argparse
import importlib
import math
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from twmd_registry.cli.terminal import Style, complain
from twmd_registry.errors import menu

DATA = "rated data: FORMAT:PATH (wmt, sts, stsb, mrpc, qqp, mte, d2t, summeval, table), or a name on the Hub (glue/stsb)"
"""How data are named, wherever they are asked for; `twmd_registry.rated.sets` reads it."""

LAST_PORT = 65_535

MOST_CHOICES = 16
"""Choices that an error lists; ``--help`` has them all."""

BAD_USAGE = 2
"""What a shell reports for a command line that cannot be."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line: what is wrong, and where to read on."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse what is left over, here and not in the parser above, so that the error points to the help of the command."""
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is no choice, with the closest one first and a long list cut."""
        if action.choices is not None and value not in action.choices:
            word = value if isinstance(value, str) else ""  # a number is close to none
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {menu(word, action.choices, most=MOST_CHOICES)}")

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line, and end with status 2."""
        complain(f"{self.prog}: error (see {self.prog} --help):", Style.BAD, message)
        self.exit(BAD_USAGE)


Run = Callable[[argparse.Namespace], int]
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001 (argparse has no public name for it)


def later(module: str, function: str) -> Run:
    """A command whose code is imported when it runs."""

    def run(arguments: argparse.Namespace) -> int:
        status: int = getattr(importlib.import_module(f"twmd_registry.cli.{module}"), function)(arguments)
        return status

    return run


def example_of(example: str) -> dict[str, Any]:
    """What makes a parser show an example below its arguments."""
    return {"epilog": f"example:\n  {example}", "formatter_class": argparse.RawDescriptionHelpFormatter}


def command(commands: Commands, name: str, run: Run, about: str, example: str) -> Parser:
    """Add a command with its help and an example."""
    sub = commands.add_parser(name, help=about, description=about, **example_of(example))
    sub.set_defaults(run=run)
    quiet(sub, default=argparse.SUPPRESS)  # or it would take back what was said before the command
    return sub


def quiet(parser: Parser, default: object) -> None:
    """Add ``--quiet``, which every command has."""
    parser.add_argument("-q", "--quiet", action="store_true", default=default, help="no warnings, notices and progress bars; results and errors stay")


def where(sub: argparse.ArgumentParser) -> None:
    """Run options: they never change a score."""
    device(sub)
    sub.add_argument(
        "--disk-cache", default=0, metavar="SIZE", help="keep encoded texts for other runs, in at most so much room ('10GB'; see 'twmd cache ls')"
    )


def device(sub: argparse.ArgumentParser) -> None:
    """Run options of a command that does not score texts."""
    sub.set_defaults(disk_cache=0)
    sub.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps (default: auto)")
    sub.add_argument("--batch-tokens", type=whole, metavar="N", help="most padded tokens in the encoder at once")


def whole(text: str, least: int = 1) -> int:
    """Read a whole number.

    Raises:
        argparse.ArgumentTypeError: It is none, or less than ``least``.
    """
    if not text.isascii() or not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected a whole number from {least}, not {text}")
    return int(text)


def resamples(text: str) -> int:
    """Read a number of resamples."""
    return whole(text, 2)


def count(text: str) -> int:
    """Read a whole number from 0."""
    return whole(text, 0)


def port(text: str) -> int:
    """Read the number of a port."""
    number = whole(text)
    if number > LAST_PORT:
        raise argparse.ArgumentTypeError(f"expected a port from 1 to {LAST_PORT}, not {text}")
    return number


def seed(text: str) -> int:
    """Read a seed."""
    return count(text)


def share(text: str) -> float:
    """Read a number of GPUs, maybe a part of one."""
    return tolerance(text)


def tolerance(text: str) -> float:
    """Read a tolerance: a finite number from 0."""
    number = float(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a finite number from 0, not {text}")
    return number


def settings(sub: argparse.ArgumentParser) -> None:
    """What decides scores."""
    sub.add_argument("--preset", help="a named setting, see 'twmd list'")
    sub.add_argument(
        "--set", action="extend", nargs="+", default=[], metavar="KEY=VALUE", help="set a key of the specification; see 'twmd explain METRIC'"
    )


def parts(sub: argparse.ArgumentParser) -> None:
    """Where the parts of a signature are here."""
    sub = sub.add_argument_group("parts of a signature", "beside a named metric, use --set KEY=VALUE")  # type: ignore[assignment]
    for name, what in (("model", "model"), ("adapter", "adapter")):
        sub.add_argument(f"--{name}", metavar="DIR", help=f"your copy of the {what}; its content must be the one that was signed")
    for name, what in (("background", "mean vector"), ("stopwords", "stop words"), ("idf", "document frequencies"), ("baseline", "baseline")):
        sub.add_argument(f"--{name}", metavar="FILE", help=f"your copy of the {what}; likewise")
