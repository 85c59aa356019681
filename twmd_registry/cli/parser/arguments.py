"""What the arguments of several commands share."""

from __future__ import annotations

import argparse
import importlib
import math
from collections.abc import Callable
from typing import TypeAlias

DATA = "rated data: FORMAT:PATH (wmt, sts, stsb, mrpc, qqp, mte, d2t, summeval, table), a table's path, or a name on the Hub (glue/stsb)"
"""How data are named, wherever they are asked for; `twmd_registry.rated.sets` reads it."""

LAST_PORT = 65_535

Run = Callable[[argparse.Namespace], int]
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 (argparse has no public name for it)


def later(module: str, function: str) -> Run:
    """A command whose code is imported when it runs."""

    def run(arguments: argparse.Namespace) -> int:
        status: int = getattr(importlib.import_module(f"twmd_registry.cli.{module}"), function)(arguments)
        return status

    return run


def command(commands: Commands, name: str, run: Run, about: str, example: str) -> argparse.ArgumentParser:
    """Add a command with its help and an example."""
    sub = commands.add_parser(
        name, help=about, description=about, epilog=f"example:\n  {example}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sub.set_defaults(run=run)
    return sub


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
