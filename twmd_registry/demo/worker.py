"""Files are scored by a process of its own, so that a long file holds up nobody who types.

In one process a model works for one caller at a time, and a file keeps it for minutes. The page and the worker speak JSON, a line
per file and a line per answer; the worker ends with its page. It is no ``multiprocessing`` process: those run the main program's file again,
and a page's program is three lines without a guard.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

from twmd_registry.demo.table_scores import FileResult, score_file
from twmd_registry.demo.uploads import UploadedTable
from twmd_registry.errors import InputError, TwmdError
from twmd_registry.record.content import InputFile

PATIENCE_S = 600.0
"""Seconds after which a file is given up."""
POLITE = 10
"""How much later than the page the worker gets the processor."""


class ScoringProcess:
    """A process that scores files, one after another; started by the first of them, and again when it has ended."""

    def __init__(self, patience: float = PATIENCE_S) -> None:
        """Remember how long to wait; nothing is started yet.

        Args:
            patience: Seconds after which a file is given up.
        """
        self.patience = patience
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def score(self, uploaded: UploadedTable, metrics: Sequence[str], preset: str) -> FileResult:
        """Score a file; arguments and result as for `score_file`.

        Raises:
            InputError: The file cannot be scored, with the message of `score_file`; it takes too long, or more memory than there is.
        """
        question = json.dumps({"uploaded": uploaded, "metrics": list(metrics), "preset": preset})
        with self._lock:
            answer = self._ask(question)
        if "error" in answer:
            raise InputError(answer["error"])
        rows, segments = (tuple(map(tuple, answer.pop(name))) for name in ("rows", "segments"))
        headers, notices = (tuple(answer.pop(name)) for name in ("segment_headers", "notices"))
        return FileResult(rows=rows, segments=segments, segment_headers=headers, notices=notices, **answer)

    def _ask(self, question: str) -> dict[str, Any]:
        process = self._started()
        timer = threading.Timer(self.patience, process.kill)
        timer.start()
        try:
            assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 (they are pipes)
            process.stdin.write(question + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            process.kill()
            process.wait()
            raise InputError(f"scoring ended early: more than {self.patience:g} s, or too little memory. Try a smaller file, or 'twmd score'.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            command = [sys.executable, "-m", __name__]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")  # noqa: S603
        return self._process

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def answer_to(line: str) -> str:
    """Score what a line asks for.

    Args:
        line: JSON with ``uploaded``, ``metrics`` and ``preset``.

    Returns:
        JSON: the fields of `FileResult`, or ``error``.
    """
    asked = json.loads(line)
    name, predictions, references, source, rows = asked["uploaded"]
    try:
        found = score_file(UploadedTable(name, predictions, references, InputFile(*source), rows), asked["metrics"], asked["preset"])
    except TwmdError as error:
        return json.dumps({"error": str(error)})
    return json.dumps(found._asdict(), allow_nan=False)


def serve() -> None:
    """Answer line by line until there is none; whatever else prints goes to stderr."""
    if hasattr(os, "nice"):
        os.nice(POLITE)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            answers.write(answer_to(line) + "\n")
            answers.flush()


if __name__ == "__main__":
    serve()
