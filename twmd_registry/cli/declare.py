"""Declare commands: their arguments, the options that several of them share, and the checks that need no model.

Imports nothing heavy, so that ``--help`` is instant and a wrong command line is refused at once.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import rich_click as click
from click.shell_completion import CompletionItem
from rich_click.rich_panel import RichOptionPanel

from twmd_registry.cli.terminal import silence
from twmd_registry.errors import FileError
from twmd_registry.registry.names import MetricName

Arguments: TypeAlias = SimpleNamespace
"""The values of a command's parameters, by name."""
Run: TypeAlias = Callable[[Arguments], int]
Declare: TypeAlias = Callable[[Run], Run]
"""Adds a parameter to the function that runs a command."""

argument, option = click.argument, click.option
RATED = "Rated data: FORMAT:PATH (wmt, sts, stsb, mrpc, qqp, mte, d2t, demetr, summeval, table), or a name on the Hub (glue/stsb)."
"""How data are named wherever they are asked for; `twmd_registry.judgments.sets` reads it."""
RESULT_FORMATS = ("text", "markdown", "latex", "tsv", "json")


class ManyOption(click.RichOption):
    """An option that takes every word up to the next option, as SacreBLEU's ``-i`` and ``-m`` do."""


class Command(click.RichCommand):
    """A command with options of several words, and with errors that say what to do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line.

        Raises:
            click.UsageError: They do not fit the command.
        """
        try:
            return super().parse_args(ctx, repeat_options(self, args))
        except click.NoSuchOption as error:
            hint = self._hint_to_name(error.option_name, ctx)
            close = [name for name in error.possibilities or () if not (hint and name == "--help")]
            shown = click.NoSuchOption(error.option_name, error.message, close).format_message()
            raise click.UsageError(shown + hint, ctx) from error
        except click.MissingParameter as error:
            greedy = [name for param in self.params if isinstance(param, ManyOption) for name in param.opts]
            used = ", ".join(name for name in greedy if name in args)
            hint = f" Name it before {used}: every word that follows is taken as its value." if used else ""
            raise click.UsageError(error.format_message() + hint, ctx) from error
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def _hint_to_name(self, option: str, ctx: click.Context) -> str:
        """Say how what an unknown option is called like is named here: an argument, or a key of the specification."""
        from twmd_registry.registry.artifacts import PART_NAMES
        from twmd_registry.registry.keys import KEYS

        key = option.lstrip("-").partition("=")[0].replace("-", "_")
        if any(isinstance(param, click.Argument) and param.name == key for param in self.params):
            return f" {key.upper()} is an argument: {ctx.command_path} {key.upper()}."
        if key not in KEYS:
            return ""
        names = [param.name for param in self.params]
        if "set" in names:
            return f" {key} is a key: use --set {key}=VALUE."
        members = [param.opts[-1] for param in self.params if isinstance(param, click.Option) and _takes_keys(param)]
        if members:
            return f" {key} is a key of a metric: use {' or '.join(members)} 'METRIC;{key}=VALUE'."
        if "part" in names and key in PART_NAMES:
            return f" Use --part {key}=PATH, the copy on this machine."
        return f" {key} is a key of a metric, which {ctx.command_path} does not take; commands that do have --set {key}=VALUE."


def _takes_keys(param: click.Option) -> bool:
    """Whether an option is a metric with its keys."""
    return param.metavar == "METRIC" and not isinstance(param.type, MetricParameter)


def repeat_options(command: click.Command, words: Sequence[str]) -> list[str]:
    """Write ``-m a b`` as ``-m a -m b``, for every `ManyOption` of a command: click takes one word per option."""
    names = {name for param in command.params if isinstance(param, ManyOption) for name in param.opts}
    found: list[str] = []
    current, has_value = None, False
    for i, word in enumerate(words):
        if word == "--":
            return [*found, *words[i:]]
        if word.startswith("-") and word != "-":
            current, has_value = word if word in names else None, False
        elif current is not None:
            if has_value:
                found.append(current)
            has_value = True
        found.append(word)
    return found


def command(name: str, *, example: str, lexical: Sequence[str] | None = None) -> Callable[[Run], Command]:
    """Declare a command; the docstring of the function that runs it is its help.

    Args:
        name: The word of the command line.
        example: Command lines, for the help.
        lexical: For a command with a parameter ``metrics`` or ``metric`` and those of `settings`: SacreBLEU's metrics
            that may be named
            there. The metrics are read before the command runs, to ``arguments.asked``.
    """

    def declare(run: Run) -> Command:
        def invoke(**values: Any) -> int:
            context: click.Context | None = click.get_current_context()
            quiet = False
            while context is not None:
                quiet, context = quiet or context.params.get("quiet", False), context.parent
            arguments = Arguments(**values)
            with silence(wanted=quiet):
                if lexical is not None:
                    from twmd_registry.cli.requested import parse_metrics

                    arguments.asked = parse_metrics(
                        arguments.metrics if "metrics" in values else [arguments.metric], arguments, lexical
                    )
                return run(arguments)

        quiet_option = option(
            "-q", "--quiet", is_flag=True, help="No warnings, notices and progress bars; results and errors stay."
        )
        params = list(reversed(getattr(quiet_option(run), "__click_params__")))  # noqa: B009 (click's own attribute, which has no type)
        about = (run.__doc__ or "").partition("\n    Raises:")[0]
        return Command(
            name=name,
            callback=invoke,
            params=[*params[1:], params[0]],
            help=about,
            epilog="\n\n".join(["Example:", *example.split("\n")]),
            panels=[RichOptionPanel("Options")],
        )

    return declare


def many(*names: str, **settings: Any) -> Declare:
    """Declare an option of several words."""
    return option(*names, cls=ManyOption, multiple=True, **settings)


class InputPath(click.Path):
    """A file or folder that must be there; ``-`` is standard input."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path.

        Raises:
            FileError: There is nothing of that name.
        """
        path = Path(value)
        if value != "-" and not path.exists():
            raise FileError(f"{path}: {os.strerror(errno.ENOENT)}.")
        return path


class RatedData(click.Path):
    """Rated data that must be there, by form and path or by a name on the Hub."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name.

        Raises:
            SpecError: The form does not exist.
            FileError: The file does not exist.
        """
        from twmd_registry.judgments.sets import check_named

        check_named(value)
        return str(value)


class Texts(InputPath):
    """A file with texts, which is returned as a path, or rated data, which are returned as their name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:  # type: ignore[override]
        """Return the path or the name.

        Raises:
            FileError: There is nothing of that name.
        """
        from twmd_registry.judgments.sets import is_rated_name

        return DATA.convert(value, param, ctx) if is_rated_name(value) else super().convert(value, param, ctx)


class MetricParameter(click.ParamType[str]):
    """A metric's name, or any form of a metric where a command takes several forms."""

    name = "metric"

    def __init__(self, choices: Iterable[str] = tuple(MetricName), *, bare: bool = False) -> None:
        """Declare which metrics are offered; with `bare`, only those of this package by their names are allowed."""
        self.choices, self.bare = [str(one) for one in choices], bare

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word.

        Raises:
            SpecError: There is no metric of that name, and only names are allowed.
        """
        if self.bare:
            from twmd_registry.registry.catalogue import entry

            entry(value)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Offer the names that begin like the word."""
        return [CompletionItem(name) for name in self.choices if name.startswith(incomplete)]


class FiniteNumber(click.ParamType[float]):
    """A finite number from 0."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; anything else is bad usage."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            self.fail(f"expected a finite number from 0, not {value}.", param, ctx)
        return number


FILE = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path, file_okay=False)
INPUT = InputPath(path_type=Path)
INPUT_FOLDER = InputPath(path_type=Path, file_okay=False)
DATA = RatedData()
TEXTS = Texts(path_type=Path)
FINITE = FiniteNumber()
POSITIVE = click.IntRange(min=1)
COUNT = click.IntRange(min=0)


def output_format(*choices: str, about: str = "") -> Declare:
    """Declare ``--format``; the first choice is the default."""
    return option(
        "--format",
        type=click.Choice(choices),
        default=choices[0],
        help=f"Of what is printed (default: {choices[0]}{about}).",
    )


def digits(about: str) -> Declare:
    """Declare ``--width``, as SacreBLEU has it."""
    return option(
        "-w",
        "--width",
        type=click.IntRange(1, 16),
        metavar="DIGITS",
        help=f"Digits after the point, 1 to 16 (default: {about}).",
    )


def seed(about: str, default: int = 12345) -> Declare:
    """Declare ``--seed``."""
    return option("--seed", type=COUNT, default=default, metavar="SEED", help=f"{about} (default: {default}).")


def device(run: Run) -> Run:
    """Declare where a command runs that does not score texts: ``--device`` and ``--batch-tokens``."""
    for declare in (
        option("--batch-tokens", type=POSITIVE, metavar="N", help="Most padded tokens in the encoder at once."),
        option("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps (default: auto)."),
    ):
        run = declare(run)
    return run


def run_options(run: Run) -> Run:
    """Declare the run options, which never change a score: those of `device`, and ``--disk-cache``."""
    about = "Keep encoded texts for other runs, in at most this much room ('10GB'; see 'twmd cache ls')."
    return device(option("--disk-cache", default=0, metavar="SIZE", type=str, help=about)(run))


def columns(run: Run) -> Run:
    """Declare the columns of texts in tables."""
    about = "of JSON lines, CSV, TSV and Parquet"
    for declare in (
        many(
            "--reference-column",
            metavar="NAME",
            help="The columns of the references (default: references or reference).",
        ),
        option(
            "--prediction-column", metavar="NAME", help=f"The column of the predictions, {about} (default: prediction)."
        ),
    ):
        run = declare(run)
    return run


def _complete_presets(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from twmd_registry.registry.presets import presets

    return sorted({name for _, name in presets() if name.startswith(incomplete)})


def settings(run: Run) -> Run:
    """Declare what decides scores: ``--preset`` and ``--set``."""
    for declare in (
        many("--set", metavar="KEY=VALUE", help="Set a key of the specification; see 'twmd explain METRIC'."),
        option("--preset", metavar="NAME", shell_complete=_complete_presets, help="A named setting, see 'twmd list'."),
    ):
        run = declare(run)
    return run


parts = many(
    "--part",
    metavar="NAME=PATH",
    help="Your copy of a part of a signature (model, adapter, background, stopwords, idf, baseline), whose content must be the one that "
    "was signed; beside a named metric, use --set.",
)
"""Declares where the parts of a signature are on this machine."""
