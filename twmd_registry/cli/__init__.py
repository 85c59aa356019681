"""``twmd``: the command line, thin over the engine."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from twmd_registry.cli.parser import build_parser
from twmd_registry.errors import SpecError, TwmdError

GOOD, BAD_DATA, BAD_USAGE = 0, 1, 2
INTERRUPTED, PIPE_CLOSED = 130, 141
"""What a shell reports for a program that SIGINT or SIGPIPE ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments; the process's own when not given.

    Returns:
        0 when all went well, 1 for bad data (or a check that failed), 2 for bad usage.
    """
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if arguments.run is None:
        parser.print_help()
        return BAD_USAGE
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            status: int = arguments.run(arguments)
            sys.stdout.flush()
        except SpecError as error:
            return _fail(error, BAD_USAGE)
        except TwmdError as error:
            return _fail(error, BAD_DATA)
        except KeyboardInterrupt:
            return _fail("interrupted", INTERRUPTED)
        except BrokenPipeError:
            # The reader has gone (`| head`): point stdout elsewhere, or Python complains once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PIPE_CLOSED
    return status


def _fail(message: object, status: int) -> int:
    print(f"twmd: {message}", file=sys.stderr)
    return status


def _show_warning(message: Warning | str, *_where: Any, **_how: Any) -> None:
    print(f"twmd: warning: {message}", file=sys.stderr)
