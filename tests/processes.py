"""Separate processes for tests, forked from one that has loaded the heavy libraries, because loading takes seconds; and
a limit on this process's file size.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

PATIENCE = 300
"""Seconds until processes that wait for each other for ever are given up."""
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "datasets",
        "torchmetrics",
        "transformers.trainer_seq2seq",
        "twmd_registry.encode.encoder",
        "twmd_registry.engine.token_backend",
    ]
)


def run_beside(function: Callable[..., Any], *calls: tuple[Any, ...]) -> list[Any]:
    """Call a function once per tuple of arguments, each in a process of its own and all at once; what it raises is
    raised here.

    Args:
        function: Of a module, so the processes can import it. They have this process's environment and working
            folder.
        calls: Arguments of each call.
    """
    with ProcessPoolExecutor(len(calls), mp_context=CONTEXT) as pool:
        running = [pool.submit(_call, dict(os.environ), Path.cwd(), function, arguments) for arguments in calls]
        return [one.result(PATIENCE) for one in running]


def _call(environment: dict[str, str], folder: Path, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Leave the environment of the parent process, which the first test that needed it has
    started."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    return function(*arguments)


def in_a_fork(work: Callable[[], bool]) -> bool:
    """Return whether `work` returns true in a forked process, within a minute."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
        child = os.fork()
    if child == 0:
        signal.alarm(60)
        code = 1
        with contextlib.suppress(BaseException):
            code = 0 if work() else 1
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@contextlib.contextmanager
def limit_files(most_bytes: int) -> Iterator[None]:
    """Limit this process's file size, so writes fail in the middle of a file, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
