"""Declare commands, their arguments, options that several commands share, and checks that need no model.

Nothing heavy is imported, so ``--help`` is instant and a wrong command line is refused immediately.
"""

from __future__ import annotations

import errno
import inspect
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

import rich_click as click
from click.core import ParameterSource
from rich_click.rich_panel import RichOptionPanel

from twmd_registry.cli.arguments import Arguments as Arguments  # noqa: PLC0414 (every command has both)
from twmd_registry.cli.arguments import refuse_run_options_of_sacrebleu
from twmd_registry.cli.terminal import null_stream
from twmd_registry.errors import FileError
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.paths import is_there

Run: TypeAlias = Callable[[Arguments], int]
Declare: TypeAlias = Callable[[Run], Run]
"""Adds parameters to the function of a command."""

argument = click.argument
RATED = (
    "DATA is rated data: FORMAT:PATH (wmt, mlqe, sts, stsb, mrpc, qqp, mte, d2t, demetr, summeval, summaries, tac, "
    "table), or a name on the Hub (glue/stsb)."
)
"""How to name rated data, for every command; read by `twmd_registry.judgments.sets`."""
RESULT_FORMATS = ("text", "markdown", "latex", "tsv", "json")


_NEGATIVE = re.compile(r"-\.?[0-9]")
"""Start of a number, which click would parse as an option. A preceding space makes it a value."""


class Command(click.RichCommand):
    """A command with options that take several values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; raise click.UsageError if it does not fit the command."""
        try:
            words = repeat_options(ctx, [f" {word}" if _NEGATIVE.match(word) else word for word in args])
            rest = super().parse_args(ctx, [*words])
            self._refuse_late_words(ctx, words)
        except click.NoSuchOption as error:
            from twmd_registry.registry.keys import KEYS

            key = error.option_name.lstrip("-").partition("=")[0].replace("-", "_")
            is_key = key in KEYS and any(param.name == "set" for param in self.params)
            hint = f" {key} is a key: use --set {key}=VALUE." if is_key else ""
            raise click.UsageError(error.format_message() + hint, ctx) from error
        except click.MissingParameter as error:
            greedy = [param for param in self.params if param.multiple and len(ctx.params.get(str(param.name), ())) > 1]
            missing = error.param.human_readable_name if error.param else "it"
            hints = [f" {param.opts[0]} takes all arguments after it, so put {missing} first." for param in greedy]
            if isinstance(error.param, click.Option):
                hints.insert(0, f" {error.param.metavar}: {error.param.help}")
            raise click.UsageError(error.format_message() + "".join(hints), ctx) from error
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            param = getattr(error, "param", None)
            if param and ctx.get_parameter_source(param.name) is ParameterSource.ENVIRONMENT:
                error.param_hint = f"the environment variable {param.envvar}"  # type: ignore[attr-defined]
            raise
        return rest

    def _refuse_late_words(self, ctx: click.Context, words: Sequence[str]) -> None:
        """Raise click.UsageError, in a command with ``-i``, for a stray argument after the first option.

        It may be a system meant for ``-i``, which would be read as a reference.
        """
        if ctx.resilient_parsing or all(param.name != "input" for param in self.params):
            return
        first = next((k for k, word in enumerate(words) if word.startswith("-") and word != "-"), len(words))
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False  # parse options up to the first other argument
        values, left, _ = parser.parse_args([*words[first:]] if words[first : first + 1] != ["--"] else [])
        arguments = [param for param in self.params if isinstance(param, click.Argument)]
        found = [value for param in arguments if isinstance(value := values.get(str(param.name)), str | tuple)]
        late = [word for value in found for word in ([value] if isinstance(value, str) else value)] + left
        if late:
            hint = "put files before the first option, and all systems after one -i"
            raise click.UsageError(f"{late[0]!r} follows an option but is not its value: {hint}.", ctx)


def repeat_options(ctx: click.Context, words: Sequence[str]) -> list[str]:
    """Rewrite ``-m a b`` as ``-m a -m b`` for options with several values, because click takes one value per option."""
    names = [name for param in ctx.command.params if getattr(param, "multiple", False) for name in param.opts]
    known = {name for param in ctx.command.params for name in param.opts}
    repeated: list[str] = []
    current, has_value = None, False
    for i, word in enumerate(words):
        if word == "--":
            return [*repeated, *words[i:]]
        if word.startswith("-") and word != "-":
            if current is not None and not has_value and word.partition("=")[0] in known:
                raise click.BadOptionUsage(current, f"Option {current!r} requires an argument.")
            current, has_value = word if word in names else None, False
        elif current is not None:
            if has_value:
                repeated.append(current)
            has_value = True
        repeated.append(word)
    return repeated


def _drop_stderr(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    """Silence warnings, progress bars and messages of libraries on stderr until the command ends."""
    if value:
        sys.stderr = null_stream()


def flag(names: str, about: str, **settings: Any) -> Declare:
    """Declare an option without a value, by its space-separated names."""
    return click.option(*names.split(), is_flag=True, help=about, **settings)


QUIET = "Print only results and errors, without warnings, notices and progress bars."
quiet = click.option("-q", "--quiet", is_flag=True, expose_value=False, callback=_drop_stderr, help=QUIET)


def command(
    name: str, *, example: str, note: str = "", common: Sequence[str] = (), sacrebleu: Sequence[str] | None = None
) -> Callable[[Run], Command]:
    """Declare a command.

    Args:
        name: The name.
        example: Examples, one per line.
        note: Last paragraph of the help, after the docstring of the command's function.
        common: Options that the help shows first; all others follow under "More".
        sacrebleu: For a command with ``-m``, SacreBLEU's metrics that it also accepts. The metrics, with the keys of
            `settings`, are then parsed to ``arguments.requested`` before the command runs.
    """

    def declare(run: Run) -> Command:
        @wraps(run)
        def invoke(**values: Any) -> int:
            arguments = Arguments(**values)
            if sacrebleu is not None:
                from twmd_registry.cli.metrics import parse_metrics

                arguments.requested = parse_metrics(arguments.metrics, arguments, sacrebleu)
                refuse_run_options_of_sacrebleu(arguments)
            return run(arguments)

        lines = "\n\n".join(["Example:", *example.split("\n")])
        about = f"{inspect.getdoc(run)}\n\n{note}"
        declared = click.command(name, cls=Command, help=about, epilog=lines)(quiet(invoke))
        declared.params.append(declared.params.pop(0))  # --quiet comes last in the help
        first = [*common, "quiet"] if common else []
        declared.panels = [RichOptionPanel("Options", options=first)]
        if common:
            options = [str(param.name) for param in declared.params if isinstance(param, click.Option)]
            declared.panels.append(RichOptionPanel("More", options=[name for name in options if name not in first]))
        return declared

    return declare


class CheckedPath(click.Path):
    """A path that a function checks and converts; shells complete it as a file or folder."""

    def __init__(self, check: Callable[[str], Path | str], **settings: Any) -> None:
        super().__init__(**settings)
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> Path | str:
        """Return the function's result."""
        return self._check(value)


def existing_path(value: str) -> Path:
    """Return the path of an existing file or folder, or of standard input, ``-``; raise FileError for others."""
    if value != "-" and not is_there(value):
        raise FileError(f"{value}: {os.strerror(errno.ENOENT)}.")
    return Path(value)


def writable_folder(value: str) -> Path:
    """Return a folder that can be written or created; raise FileError for others."""
    click.Path(file_okay=False).convert(value, None, None)  # refuses a file
    folder = Path(value)
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise FileError(f"{nearest} is a file: expected a folder.")
    _try_to_write(folder, nearest)
    return folder


def check_output(path: Path, inputs: Iterable[Path]) -> None:
    """Raise FileError for an output file that is an input or cannot be written. Leaves no trace."""
    if path.exists() and not path.is_file():
        raise FileError(f"cannot write {path}: it is not a regular file; choose another.")
    if any(path.exists() and source.exists() and path.samefile(source) for source in inputs):
        raise FileError(f"cannot write {path}: it is one of the input files.")
    if not path.parent.is_dir():
        here = next(parent for parent in path.absolute().parents if parent.exists())
        why = f"no folder {path.parent}" if here.is_dir() else f"{here} is a file, not a folder"
        raise FileError(f"cannot write {path}: {why}.")
    _try_to_write(path, path.resolve().parent)
    if path.exists() and not os.access(path, os.W_OK):
        raise FileError(f"cannot write {path}: Permission denied.")


def _try_to_write(path: Path, folder: Path) -> None:
    try:  # permissions are not enough: root has all of them, and a file system may be read-only
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror} ({folder}).") from error


def _rated_data(value: str) -> str:
    from twmd_registry.judgments.sets import check_named

    check_named(value)
    return value


def finite_number(value: str) -> float:
    """Parse a finite, non-negative number; raise click.BadParameter for anything else."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise click.BadParameter(f"expected a finite, non-negative number, not {value}.")
    return number


FILE = click.Path(path_type=Path)
FOLDER = CheckedPath(writable_folder, file_okay=False)
INPUT = CheckedPath(existing_path)
INPUT_FOLDER = CheckedPath(existing_path, file_okay=False)
DATA = CheckedPath(_rated_data)
POSITIVE, COUNT, WIDTH = click.IntRange(min=1), click.IntRange(min=0), click.IntRange(0, 16)
TYPES = {"FILE": FILE, "DIR": FOLDER, "DATA": DATA, "N": POSITIVE, "SEED": COUNT, "DIGITS": WIDTH, "X": finite_number}
"""Default types of options by metavar."""


def option(names: str, metavar: str | None, about: str, **settings: Any) -> Declare:
    """Declare an option by its space-separated names."""
    settings = {"metavar": metavar, "type": TYPES.get(str(metavar)), **settings}
    return click.option(*names.split(), help=about, **settings)


def many(names: str, metavar: str, about: str, **settings: Any) -> Declare:
    """Declare an option that takes all values up to the next option, like SacreBLEU's ``-i`` and ``-m``."""
    return option(names, metavar, about, multiple=True, **settings)


def words(choices: Iterable[object]) -> click.Choice[str]:
    """Return the type of an option with fixed choices."""
    return click.Choice([*map(str, choices)])


def choice(name: str, choices: Iterable[object], default: object, about: str, **settings: Any) -> Declare:
    """Declare an option with fixed choices."""
    return option(name, None, about, type=words(choices), default=str(default), **settings)


def offer(choices: Iterable[object]) -> Callable[..., list[str]]:
    """Return a completion function that offers these choices."""
    words = [str(word) for word in choices]
    return lambda _ctx, _param, incomplete: [word for word in words if word.startswith(incomplete)]


SCORES = (
    "Scores of another program (COMET, a judge), higher is better: a file of numbers per system; or, for all systems, "
    "a table with columns NAME and system, comet-score's JSON, or mt-metrics-eval's .seg.score."
)


def other_scores(function: Any) -> Any:
    """Declare ``--scores``."""
    return many("--scores", "NAME=FILE", SCORES)(function)


def metrics(lexical: Iterable[str], about: str, **settings: Any) -> Declare:
    """Declare ``-m``: metrics of this package in any form, and some SacreBLEU metrics."""
    settings = {"shell_complete": offer([*MetricName, *lexical]), **settings}
    return many("-m --metrics", "METRIC", about, **settings)


def metric(about: str, choices: Iterable[object] = MetricName, **settings: Any) -> Declare:
    """Declare ``-m`` for a single metric; shells offer the choices."""
    return metrics((), about, callback=only_one, shell_complete=offer(choices), **settings)


def only_one(_ctx: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the only value of an option; raise click.BadParameter for several."""
    if len(values) > 1:
        found = f"expected one {param.metavar}, not {len(values)}: {', '.join(map(str, values))}"
        raise click.BadParameter(f"{found}. It takes all arguments after it: put everything else first.")
    return values


def output(about: str, metavar: str = "DIR", **settings: Any) -> Declare:
    """Declare ``-o``, a folder or a file."""
    return option("-o --output", metavar, about, **settings)


def output_format(*choices: str, about: str = "") -> Declare:
    """Declare ``--format``; the first choice is the default."""
    return choice("--format", choices, choices[0], f"Format of the output (default: {choices[0]}{about}).")


def digits(about: str) -> Declare:
    """Declare ``--width``, as in SacreBLEU."""
    return option("-w --width", "DIGITS", f"Digits after the point, 0 to 16 (default: {about}).")


def keys(*names: str) -> Declare:
    """Declare ``--set`` for a command that reads only some keys."""
    return many("--set", "KEY=VALUE", f"Set {', '.join(names)}.")


def seed(about: str, default: int = 12345) -> Declare:
    """Declare ``--seed``."""
    return option("--seed", "SEED", f"{about} (default: {default}).", default=default)


def all_of(*declarations: Declare) -> Declare:
    """Declare several parameters, in this order."""

    def declare(run: Run) -> Run:
        for declaration in reversed(declarations):
            run = declaration(run)
        return run

    return declare


PREDICTIONS = "Column of the predictions in JSON lines, CSV, TSV and Parquet (default: prediction)."
REFERENCES = "Columns of the references (default: references or reference)."
DOCS = "Score documents too: a file with a line DOMAIN<TAB>DOCUMENT per segment (mt-metrics-eval's .docs)."
PART = (
    "Your copy of a signature's file (model, adapter, background, stopwords, idf, baseline) with the signed content; "
    "with a metric's name, use --set."
)

DEVICE = "Device of the encoder: auto, cpu, cuda, cuda:1, mps (default: auto)."
device = option("--device", None, DEVICE, default="auto")
placement = all_of(device, option("--batch-tokens", "N", "Maximum number of padded tokens per encoder batch."))
"""Declares where a command that does not score texts runs."""
any_language = flag("--any-language", "Score texts in unsupported scripts; warn instead of failing.")
run_options = all_of(placement, any_language)
"""Declares the run options, which never change a score."""
reading = all_of(
    flag("--lines", "Read every file as lines of text, even if it looks like JSON, XML or a table."),
    flag("--quoted-tsv", "Cells of TSV are quoted as in CSV (default: quotes are ordinary characters)."),
)
"""Declares how files are read."""
columns = all_of(
    option("--prediction-column", "NAME", PREDICTIONS), many("--reference-column", "NAME", REFERENCES), reading
)
"""Declares the columns of texts in tables, and how to read files."""
documents = all_of(
    option("--doc-column", "NAME", "Score documents too: the column with every segment's document."),
    option("--docs", "FILE", DOCS),
)
"""Declares the documents of segments."""
drop_missing = flag("--drop-missing", "Leave out rows that lack a text, and count them, instead of failing.")
source = option("--src", "FILE", "Source texts: one per line, or a table with a column source.")
"""Declares the source texts."""


def _complete_presets(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from twmd_registry.registry.presets import presets

    return sorted({name for _, name in presets() if name.startswith(incomplete)})


settings = all_of(
    option("--preset", "NAME", "A named setting, see 'twmd explain'.", shell_complete=_complete_presets),
    many("--set", "KEY=VALUE", "Set a key of the specification; see 'twmd explain -m METRIC'."),
)
"""Declares what determines scores."""
parts = many("--part", "NAME=PATH", PART)
"""Declares where a signature's files are on this machine."""
