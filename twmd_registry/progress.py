"""Progress reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock

Progress = Callable[[int], None]
"""Called with the number of units finished since the last call, maybe from another thread. In public functions, units
are segments.
"""


def expect(progress: Progress | None, total: int) -> None:
    """Announce more units through a progress bar's method `expect`; ignored by plain functions and None."""
    if add := getattr(progress, "expect", None):
        add(total)


Stage = Callable[[int], AbstractContextManager[Progress | None]]
"""Returns a context manager for the next stage, given its units of work (at least 1; excess units are not counted). It
yields the function to which the stage reports its units.
"""


def split_progress(progress: Progress | None, segments: int, stages: int) -> Stage:
    """Return a `Stage` that reports several stages' work in segments. Each stage has an equal share.

    Reports add up to the number of segments, even if a stage skips work (cached texts) or repeats it. Threads may share
    it.
    """
    finished, reported, lock = 0, 0, Lock()

    def report_share(share: float) -> None:
        nonlocal reported
        done = int((finished + share) * segments / stages)
        if progress is not None and done > reported:
            progress(done - reported)
            reported = done

    @contextmanager
    def stage(work: int) -> Iterator[Progress | None]:
        nonlocal finished
        if progress is None:
            yield None
            return
        done = 0

        def report(units: int) -> None:
            nonlocal done
            with lock:
                done = min(done + units, work)
                report_share(done / work)

        yield report
        report_share(1.0)
        finished += 1

    return stage
