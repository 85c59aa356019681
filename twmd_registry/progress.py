"""Progress reports: units done, and the total."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Protocol, runtime_checkable

Progress = Callable[[int], None]
"""Called with the number of units (segments, rows) that were finished since the last call; maybe from another thread.
"""


@runtime_checkable
class SizedProgress(Protocol):
    """A progress bar, which knows how many units there are."""

    def expect(self, total: int) -> None:
        """Add units to what is to come."""


def expect(progress: Progress | None, total: int) -> None:
    """Announce a number of units to a progress bar; a plain function, or None, ignores it.

    Args:
        progress: Receives the reports.
        total: Units that will be reported from now on, beside those that were announced before.
    """
    if isinstance(progress, SizedProgress):
        progress.expect(total)


class StageProgress:
    """Reports the work of several stages in segments; each stage has an equal share. Threads may share it.

    The reports add up to the number of segments, also when a stage skips work (cached texts) or repeats it.
    """

    def __init__(self, progress: Progress | None, segments: int, stages: int) -> None:
        """Begin.

        Args:
            progress: Receives the number of finished segments; None to report nothing.
            segments: Number of segments.
            stages: Number of stages of each segment.
        """
        self._progress, self._segments, self._stages = progress, segments, stages
        self._finished, self._reported, self._lock = 0, 0, Lock()

    @contextlib.contextmanager
    def stage(self, work: int) -> Iterator[Progress | None]:
        """Report the next stage.

        Args:
            work: Units of work in it, at least 1; more than those are not counted.

        Yields:
            What the stage reports its units to.
        """
        if self._progress is None:
            yield None
            return
        done = 0

        def report(units: int) -> None:
            nonlocal done
            with self._lock:
                done = min(done + units, work)
                self._report(done / work)

        yield report
        self._report(1.0)
        self._finished += 1

    def _report(self, share: float) -> None:
        segments = int((self._finished + share) * self._segments / self._stages)
        if self._progress is not None and segments > self._reported:
            self._progress(segments - self._reported)
            self._reported = segments
