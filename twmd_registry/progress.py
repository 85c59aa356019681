"""Progress reports: units done, and the total."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock

Progress = Callable[[int], None]
"""Called with the number of units (segments, rows) that were finished since the last call; maybe from another thread.
"""


def expect(progress: Progress | None, total: int) -> None:
    """Announce more units, by the method `expect` of a progress bar; a plain function, or None, ignores it."""
    if add := getattr(progress, "expect", None):
        add(total)


Stage = Callable[[int], AbstractContextManager[Progress | None]]
"""Makes a context manager of the next stage, from the units of work in it (at least 1; more than those are not
counted). It gives what the stage reports its units to.
"""


def split_progress(progress: Progress | None, segments: int, stages: int) -> Stage:
    """Return what reports the work of several stages in segments; each stage has an equal share. Threads may share it.

    The reports add up to the number of segments, also when a stage skips work (cached texts) or repeats it.
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
