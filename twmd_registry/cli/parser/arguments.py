"""What the arguments of several commands share."""

from __future__ import annotations

import argparse
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

from twmd_registry.cli.terminal import Style, complain
from twmd_registry.errors import menu

DATA = "rated data: FORMAT:PATH (wmt, sts, stsb, mrpc, qqp, mte, d2t, summeval, table), or a name on the Hub (glue/stsb)"
"""How data are named, wherever they are asked for; `twmd_registry.judgments.sets` reads it."""

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
            self.error(f"unrecognized arguments: {' '.join(left)}{self._hint_to_set(left)}")
        return found, left

    def _hint_to_set(self, left: Sequence[str]) -> str:
        """Tell how a key of the specification is given, if a word that is no option names one."""
        if not any(action.dest == "set" for action in self._actions):
            return ""
        from twmd_registry.registry.keys import KEYS

        key = next((name for word in left if word.startswith("--") and (name := word[2:].partition("=")[0].replace("-", "_")) in KEYS), None)
        return f"; {key} is a key: use --set {key}=VALUE" if key else ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is no choice, with the closest one first and a long list cut."""
        if action.choices is not None and value not in action.choices:
            word = value if isinstance(value, str) else ""  # a number is close to none
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {menu(word, action.choices, most=MOST_CHOICES)}")

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line, and end with status 2."""
        if message.startswith(("the following arguments are required", "one of the arguments")) and (greedy := self._greedy_options()):
            message += f"; {', '.join(greedy)} take every word after them: give it before them"
        complain(f"{self.prog}: error (see {self.prog} --help):", Style.BAD, message)
        self.exit(BAD_USAGE)

    def _greedy_options(self) -> list[str]:
        """The options that take as many words as follow them."""
        return [action.option_strings[-1] for action in self._actions if action.option_strings and action.nargs == "+"]


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


def command(
    commands: Commands,
    name: str,
    run: Run,
    about: str,
    example: str,
    *,
    files: Sequence[str] = (),
    data: Sequence[str] = (),
    metrics: Sequence[str] | None = None,
    names: Sequence[str] = (),
) -> Parser:
    """Add a command with its help and an example.

    What `files`, `data`, `metrics` and `names` name is checked before the command's code, and with it torch, is imported.

    Args:
        commands: Where.
        name: Its name.
        run: Runs it.
        about: What it does.
        example: A command line.
        files: Arguments that are files or folders which must be there.
        data: Arguments that name rated data which must be there.
        metrics: For a command with an argument ``metrics`` or ``metric``, and those of `settings`, SacreBLEU's metrics that may stand there.
        names: Arguments that are bare names of metrics.
    """
    sub = commands.add_parser(name, help=about, description=about, **example_of(example))
    sub.set_defaults(run=run, files_to_read=files, data_to_read=data, lexical=metrics, metric_names=names, takes_parts=False)
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


def columns(sub: argparse.ArgumentParser) -> None:
    """Where texts stand in the files that are tables."""
    about = "of JSON lines, CSV, TSV and Parquet"
    sub.add_argument("--prediction-column", metavar="NAME", help=f"the column of the predictions, {about} (default: prediction)")
    sub.add_argument("--reference-column", nargs="+", metavar="NAME", help="the columns of the references (default: references or reference)")


def form(sub: argparse.ArgumentParser, choices: Sequence[str], about: str = "") -> None:
    """Add ``--format``, which every command spells alike; the first choice is the default."""
    sub.add_argument("--format", choices=choices, default=choices[0], help=f"of what is printed (default: {choices[0]}{about})")


def digits(sub: argparse.ArgumentParser, about: str) -> None:
    """Add ``--width``, as SacreBLEU has it."""
    sub.add_argument("-w", "--width", type=int, choices=range(1, 17), metavar="DIGITS", help=f"digits after the point, 1 to 16 (default: {about})")


def settings(sub: argparse.ArgumentParser) -> None:
    """What decides scores."""
    sub.add_argument("--preset", help="a named setting, see 'twmd list'")
    sub.add_argument(
        "--set", action="extend", nargs="+", default=[], metavar="KEY=VALUE", help="set a key of the specification; see 'twmd explain METRIC'"
    )


def parts(sub: argparse.ArgumentParser) -> None:
    """Where the parts of a signature are here."""
    sub.set_defaults(takes_parts=True)
    sub = sub.add_argument_group("parts of a signature", "beside a named metric, use --set KEY=VALUE")  # type: ignore[assignment]
    for name, what in (("model", "model"), ("adapter", "adapter")):
        sub.add_argument(f"--{name}", metavar="DIR", help=f"your copy of the {what}; its content must be the one that was signed")
    for name, what in (("background", "mean vector"), ("stopwords", "stop words"), ("idf", "document frequencies"), ("baseline", "baseline")):
        sub.add_argument(f"--{name}", metavar="FILE", help=f"your copy of the {what}; likewise")
