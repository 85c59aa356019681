"""``twmd``: the command line, thin over the engine."""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from twmd_registry.cli.terminal import Style, complain
from twmd_registry.errors import SpecError, TwmdError, is_out_of_memory

BAD_DATA, BAD_USAGE = 1, 2
COMPLETION = "_TWMD_COMPLETE"
"""The environment variable by which a shell asks for completions."""
INTERRUPTED, PIPE_CLOSED = 130, 141
"""What a shell reports for a program that SIGINT or SIGPIPE ended."""

OUT_OF_MEMORY = (
    "out of memory: give fewer texts, cut long ones (--set truncation=cut:N), or use a machine or a --device with more."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments; the process's own when not given.

    Returns:
        0 for success, 1 for bad data (or a check that failed), 2 for bad usage.
    """
    # torch reads it once, on Linux: memory is then mapped in large pages, which takes a sixth off a short run on a
    # virtual machine.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    if sys.stdout is None:
        return _fail("standard output is closed", BAD_DATA)
    _escape_what_cannot_be_shown()
    with warnings.catch_warnings():
        shown: set[str] = set()

        def show_once(message: Warning | str, *_where: Any, **_how: Any) -> None:
            """Show a warning, once per command: it may score in many calls."""
            if str(message) not in shown:
                shown.add(str(message))
                complain("twmd: warning:", Style.DOUBTFUL, message)

        warnings.showwarning = show_once
        return _run(sys.argv[1:] if argv is None else [str(word) for word in argv])


def _run(argv: list[str]) -> int:  # noqa: PLR0911 (a return for each kind of failure)
    from click.exceptions import Exit, UsageError

    from twmd_registry.cli.commands import twmd

    if COMPLETION in os.environ:  # a shell asks what may stand at the cursor
        from twmd_registry.cli.setup_commands import complete

        complete()
    try:
        # Not `twmd.main`, which answers interrupts and closed pipes itself.
        with twmd.make_context("twmd", argv) as context:
            status: int = twmd.invoke(context)
        sys.stdout.flush()
    except Exit as stop:
        return stop.exit_code
    except UsageError as error:
        path = error.ctx.command_path if error.ctx else "twmd"
        return _fail(error.format_message(), BAD_USAGE, f"{path}: error (see {path} --help):")
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except TwmdError as error:
        return _fail(error, BAD_USAGE if isinstance(error, SpecError) else BAD_DATA)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return _fail(OUT_OF_MEMORY, BAD_DATA)
    except BrokenPipeError:  # the reader has gone (`| head`)
        _drop_output()
        return PIPE_CLOSED
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _fail(f"{error.filename}: {error.strerror}." if error.filename is not None else error, BAD_DATA)
        _drop_output()
        return _fail(f"cannot write: {error.strerror}", BAD_DATA)
    return status


def _drop_output() -> None:
    """Point stdout elsewhere, or Python complains once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escape_what_cannot_be_shown() -> None:
    """Escape characters that a terminal cannot show, instead of ending in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fail(message: object, status: int, head: str = "twmd:") -> int:
    complain(head, Style.BAD, message)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # what was printed before cannot be written either
        _drop_output()
    return status
