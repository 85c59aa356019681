"""``twmd``: the command line, thin over the engine. Its commands by panel, each imported when it is used."""

from __future__ import annotations

import ctypes
import difflib
import importlib
import io
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, suppress
from typing import Any

import rich_click as click
from click.exceptions import Exit
from rich_click.rich_panel import RichCommandPanel

from twmd_registry.cli.declare import quiet
from twmd_registry.cli.terminal import BAD, DOUBTFUL, complain, null_stream
from twmd_registry.errors import SpecError, TwmdError, TwmdWarning, is_out_of_memory
from twmd_registry.version import __version__

BAD_DATA, BAD_USAGE, CHECK_FAILED = 1, 2, 3
COMPLETION = "_TWMD_COMPLETE"
"""The environment variable by which a shell asks for completions."""
INTERRUPTED, PIPE_CLOSED = 130, 141
"""What a shell reports for a program that SIGINT or SIGPIPE ended."""
OUT_OF_MEMORY = (
    "out of memory: give fewer texts, cut long ones (--set truncation=cut:N), or use a machine or a --device with more."
)
M_ARENA_MAX = -8
"""The option of glibc's ``mallopt`` that limits the areas which threads allocate in."""
PANELS = {
    "Score": ("score_commands", "score report align mbr"),
    "Serve": ("setup_commands", "serve"),
    "Publish": ("publish_commands", "verify diff cite"),
    "Agreement with people": ("agreement_commands", "correlate tune"),
    "Training": ("train_commands", "fit-mean fit-idf fit-baseline train finetune average"),
    "Set up": ("setup_commands", "list explain preset selfcheck demo hub install uninstall completion"),
}
"""From a panel of ``--help`` to the module that declares and runs its commands, and their names."""


class LazyGroup(click.RichGroup):
    """A group that imports a command's module when the command is used.

    Args:
        package: The package of the modules that declare the commands.
        sections: From a panel of ``--help`` to the module that declares its commands, and their names.
        settings: As for `click.RichGroup`.
    """

    def __init__(self, *, package: str, sections: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        panels = [RichCommandPanel(panel, commands=names.split()) for panel, (_, names) in sections.items()]
        super().__init__(**settings | {"panels": panels})
        self._modules = {name: f"{package}.{module}" for module, names in sections.values() for name in names.split()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of ``--help``."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; raises UsageError, with the closest name, for an unknown one."""
        if cmd_name not in self._modules:
            if ctx.resilient_parsing:
                return None
            hints = [f" Did you mean {name!r}?" for name in difflib.get_close_matches(cmd_name, self._modules, n=1)]
            raise click.UsageError(f"No such command {cmd_name!r}.{''.join(hints)}", ctx)
        module = importlib.import_module(self._modules[cmd_name])
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command


@click.group(
    "twmd",
    cls=LazyGroup,
    package="twmd_registry.cli",
    sections=PANELS,
    invoke_without_command=True,
    help="Embedding metrics for generated text, with signatures that anybody can re-run.",
    epilog="Example: twmd score ref.txt -i system_a.txt system_b.txt -m twmd moverscore",
)
@click.version_option(__version__, prog_name="twmd", message="%(prog)s %(version)s")
@quiet
@click.pass_context
def twmd(ctx: click.Context) -> None:
    """Print the help where no command is given."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(click.UsageError.exit_code)


def main(argv: Sequence[str] | None = None, program: click.Group = twmd) -> int:
    """Run one command line of a program, the process's own by default, and return its exit status.

    It is 0 for success, 1 for bad data or a failed verification, 2 for bad usage, 3 for scores that fail a check.
    """
    # Read once, on Linux: large memory pages take a sixth off a short run on a virtual machine, and OpenMP's threads
    # sleep after a tenth of their wait for a thread, of which another process may have the core.
    os.environ |= {"THP_MEM_ALLOC_ENABLE": "1", "GOMP_SPINCOUNT": "30000"} | os.environ
    with suppress(AttributeError, OSError, TypeError):  # where C's library is not glibc
        # Each area keeps what is free in it: one for all threads takes 20 to 50 MB less, and no time.
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BytesIO())  # None where it is closed
    sys.stdout, sys.stderr = sys.stdout or null_stream(), sys.stderr or null_stream()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escape what a terminal cannot show, instead of a traceback
            stream.reconfigure(errors="backslashreplace")
    shown: set[str] = set()

    def show_once(message: Warning | str, *_where: Any, **_how: Any) -> None:
        """Show a warning, once per command: it may score in many calls."""
        if str(message) not in shown:
            shown.add(str(message))
            complain(f"{program.name}: warning:", DOUBTFUL, message)

    with warnings.catch_warnings():
        warnings.showwarning = show_once
        _narrow_errors()
        return _run(program, sys.argv[1:] if argv is None else [str(word) for word in argv])


def _narrow_errors() -> None:
    """Let ``-W error`` and PYTHONWARNINGS make errors of this package's warnings only: those of libraries, which no
    user of a command can mend, would end it at some import.
    """
    warnings.filters[:] = [  # type: ignore[index]
        (action, message, TwmdWarning, *place) if action == "error" else (action, message, category, *place)
        for action, message, category, *place in warnings.filters
        if action != "error" or issubclass(TwmdWarning, category)
    ]


def _run(program: click.Group, argv: list[str]) -> int:  # noqa: PLR0911 (a return for each kind of failure)
    name = str(program.name)
    if COMPLETION in os.environ:  # a shell asks what may stand at the cursor
        from click.shell_completion import shell_complete

        return shell_complete(program, {}, name, COMPLETION, os.environ[COMPLETION])
    if any("\0" in word for word in argv):  # which no file's name can hold
        return _fail("a word of the command line holds a NUL character: leave it out.", BAD_USAGE, f"{name}:")
    try:
        # Not `twmd.main`, which answers interrupts and closed pipes itself. On exit stderr is as before --quiet.
        with redirect_stderr(sys.stderr), program.make_context(name, argv) as context:
            status: int = program.invoke(context)
        sys.stdout.flush()
    except Exit as stop:
        return stop.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else name
        return _fail(error.format_message(), BAD_USAGE, f"{path}: error (see {path} --help):")
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED, f"{name}:")
    except click.ClickException as error:  # scores that fail a check
        return _fail(error, CHECK_FAILED, f"{name}: failed:")
    except TwmdWarning as error:
        return _fail(f"{error} (a warning, which -W or PYTHONWARNINGS makes an error)", BAD_DATA, f"{name}:")
    except BrokenPipeError:  # the reader has gone (`| head`)
        _drop_output()
        return PIPE_CLOSED
    except (TwmdError, MemoryError, RuntimeError, ImportError, SystemError, OSError) as error:
        if is_out_of_memory(error):
            return _fail(OUT_OF_MEMORY, BAD_DATA, f"{name}:")
        if isinstance(error, TwmdError):
            return _fail(error, BAD_USAGE if isinstance(error, SpecError) else BAD_DATA, f"{name}:")
        if not isinstance(error, OSError):
            raise
        message = f"{error.filename}: {error.strerror}." if error.filename is not None else error
        return _fail(message, BAD_DATA, f"{name}:")
    return status


def _drop_output() -> None:
    """Point stdout to the null device: at exit Python would complain again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: object, status: int, head: str) -> int:
    complain(head, BAD, message)
    try:
        sys.stdout.flush()
    except OSError:  # what was printed before cannot be written either
        _drop_output()
    return status
