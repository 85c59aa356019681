"""``twmd``: the command line, thin over the engine. Its commands by panel, each imported when it is used."""

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
"""The environment variable by which a shell asks for completions."""
INTERRUPTED, PIPE_CLOSED = 130, 141
"""What a shell reports for a program that SIGINT or SIGPIPE ended."""
OUT_OF_MEMORY = (
    "out of memory: give fewer texts, cut long ones (--set truncation=cut:N), or use a machine or a --device with more."
)
M_ARENA_MAX = -8
"""The option of glibc's ``mallopt`` that limits the areas which threads allocate in."""
PANELS = {
    "Score": ("{}", "score report align mbr"),
    "Publish": ("{}", "verify diff cite"),
    "Agreement with people": ("{}", "correlate tune"),
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
    """Run one command line of a program, the process's own by default, and return its exit status.

    It is 0 for success, 1 for bad data or a failed verification, 2 for bad usage, 3 for scores that fail a check.
    """
    # Read once, on Linux: large memory pages take a sixth off a short run on a virtual machine, and OpenMP's threads
    # sleep after a tenth of their wait for a thread: another process may have its core.
    os.environ |= {"THP_MEM_ALLOC_ENABLE": "1", "GOMP_SPINCOUNT": "30000"} | os.environ
    with suppress(AttributeError, OSError, TypeError):  # where C's library is not glibc
        # Each area keeps its free memory: one for all threads takes 20 to 50 MB less, and no time.
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
    """Let ``-W error`` and PYTHONWARNINGS make errors of this package's warnings only: warnings of libraries, which no
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
