"""A trace of one score: its files, functions and types.

The second call of a scorer is traced: the model is loaded, and everything that a specification needs is found.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import twmd_registry

PACKAGE = Path(twmd_registry.__file__).parent


class Chain(NamedTuple):
    """The parts of this package that a call uses.

    Attributes:
        functions: By file, relative to the package, the functions and methods that ran; nested ones belong to theirs.
        types: Names of the classes that were created, passed or returned.
    """

    functions: dict[str, list[str]]
    types: list[str]


def trace(call: Callable[[], object]) -> Chain:
    """Trace every function of this package that a call runs, in all threads that it starts."""
    functions: dict[str, set[str]] = {}
    types: set[str] = set()

    def watch(frame: FrameType, event: str, value: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(PACKAGE) or event not in {"call", "return"}:
            return
        name = frame.f_code.co_qualname.partition(".<locals>")[0]
        if not name.endswith(">"):
            functions.setdefault(path.relative_to(PACKAGE).as_posix(), set()).add(name)
        for one in (*frame.f_locals.values(), value):
            if type(one).__module__.partition(".")[0] == PACKAGE.name and not hasattr(type(one), "__members__"):
                types.add(type(one).__qualname__)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Chain({path: sorted(names) for path, names in sorted(functions.items())}, sorted(types))


def trace_score() -> Chain:
    """Trace a score with the default metric."""
    with twmd_registry.load("twmd") as scorer:
        scorer.score(["a cat"], ["the cat"])
        return trace(lambda: scorer.score(["the cat sat", "it rains"], ["a cat sat down", "it pours"]))
