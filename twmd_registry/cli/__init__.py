"""``twmd``: the command line, a thin layer over the engine. Commands are imported when they are used."""

from __future__ import annotations

import ctypes
import io
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, suppress
from typing import Any

import rich_click as click
from click.exceptions import Exit

from twmd_registry.cli.groups import group
from twmd_registry.cli.terminal import BAD, DOUBTFUL, complain, null_stream
from twmd_registry.errors import SpecError, TwmdError, TwmdWarning, is_out_of_memory
from twmd_registry.version import __version__

BAD_DATA, BAD_USAGE, CHECK_FAILED = 1, 2, 3
COMPLETION = "_TWMD_COMPLETE"
"""Environment variable through which a shell requests completions."""
INTERRUPTED, PIPE_CLOSED = 130, 141
"""Exit statuses of a program ended by SIGINT or SIGPIPE."""
OUT_OF_MEMORY = "out of memory: pass fewer texts, cut long ones (--set truncation=cut:N), or use another --device."
M_ARENA_MAX = -8
"""Option of glibc's ``mallopt`` that limits the arenas in which threads allocate."""
PANELS = {
    "Score": ("{}", "score report align mbr"),
    "Publish": ("{}", "verify diff cite"),
    "Agreement with human ratings": ("{}", "correlate tune"),
    "Serve and look up": ("{}", "serve demo explain"),
    "Fit, train and set up": ("{}", "fit train setup"),
}
START = """\
Try:
  twmd align "the cat sat on the mat" "a cat was sitting on the mat"   which words match, and the score
  twmd score ref.txt -i out.txt                                        a system's output against references
  twmd score ref.txt -i a.txt b.txt -m twmd bleu --paired-bs           two systems, and whether one is better
  twmd explain                                                         metrics, presets and their settings

For all commands: --help."""
twmd = group(
    "twmd",
    "Embedding metrics for generated text, with signatures that anybody can re-run.",
    package=__name__,
    sections=PANELS,
    example="twmd score ref.txt -i system_a.txt system_b.txt -m twmd moverscore",
    start=START,
)
click.version_option(__version__, prog_name="twmd", message="%(prog)s %(version)s")(twmd)


def main(argv: Sequence[str] | None = None, program: click.Group = twmd) -> int:
    """Run one command line, by default the process's own, and return its exit status.

    It is 0 for success, 1 for bad data or a failed verification, 2 for bad usage, 3 for scores that fail a check.
    """
    # Read once, on Linux. Large memory pages save a sixth of a short run on a virtual machine. OpenMP's threads sleep
    # after a tenth of their usual wait, because another process may need their core.
    os.environ |= {"THP_MEM_ALLOC_ENABLE": "1", "GOMP_SPINCOUNT": "30000"} | os.environ
    with suppress(AttributeError, OSError, TypeError):  # the C library is not glibc
        # Every arena keeps its free memory. A single arena takes 20 to 50 MB less, and no extra time.
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BytesIO())  # None if it is closed
    sys.stdout, sys.stderr = sys.stdout or null_stream(), sys.stderr or null_stream()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escape what a terminal cannot show instead of failing
            stream.reconfigure(errors="backslashreplace")
    shown: set[str] = set()

    def show_once(message: Warning | str, *_where: Any, **_how: Any) -> None:
        """Show a warning once per command, which may score in many calls."""
        if str(message) not in shown:
            shown.add(str(message))
            complain(f"{program.name}: warning:", DOUBTFUL, message)

    with warnings.catch_warnings():
        warnings.showwarning = show_once
        _narrow_errors()
        return _run(program, sys.argv[1:] if argv is None else [str(word) for word in argv])


def _narrow_errors() -> None:
    """Make ``-W error`` and PYTHONWARNINGS apply only to this package's warnings.

    Users cannot fix warnings of libraries, which would end a command at some import.
    """
    warnings.filters[:] = [  # type: ignore[index]
        (action, message, TwmdWarning, *place) if action == "error" else (action, message, category, *place)
        for action, message, category, *place in warnings.filters
        if action != "error" or issubclass(TwmdWarning, category)
    ]


def _run(program: click.Group, argv: list[str]) -> int:  # noqa: PLR0911 (a return for each kind of failure)
    name = str(program.name)
    if COMPLETION in os.environ:  # a shell requests completions
        from click.shell_completion import shell_complete

        return shell_complete(program, {}, name, COMPLETION, os.environ[COMPLETION])
    if any("\0" in word for word in argv):  # impossible in a file name
        return _fail("an argument contains a NUL character: remove it.", BAD_USAGE, f"{name}:")
    try:
        # `twmd.main` would handle interrupts and closed pipes itself. Leaving the block undoes --quiet.
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
        return _fail(f"{error} (a warning that -W or PYTHONWARNINGS turns into an error)", BAD_DATA, f"{name}:")
    except BrokenPipeError:  # the reader is gone (`| head`)
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
    """Point stdout to the null device, or Python would complain again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: object, status: int, head: str) -> int:
    complain(head, BAD, message)
    try:
        sys.stdout.flush()
    except OSError:  # earlier output cannot be written either
        _drop_output()
    return status
