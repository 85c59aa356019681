"""Text for users: warnings at the caller's line, menus of choices, and escaping of control characters."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

from twmd_registry.errors import TwmdWarning

_COLLECTED: ContextVar[list[str] | None] = ContextVar("_COLLECTED", default=None)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect this thread's warnings in a list instead of showing them."""
    messages: list[str] = []
    before = _COLLECTED.set(messages)
    try:
        yield messages
    finally:
        _COLLECTED.reset(before)


def warn(message: str) -> None:
    """Warn at the line of user code that made the call, on every call.

    Python's default filter would show a text once per line, and remembers it in the caller's module. It is removed from
    there first. Filters that the user sets keep their meaning.
    """
    messages = _COLLECTED.get()
    if messages is not None:
        messages.append(message)
        return
    frame: FrameType = sys._getframe()  # noqa: SLF001 (inspect's function is slower)
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(f"{__package__}."):
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    registry.pop((message, TwmdWarning, frame.f_lineno), None)
    module = frame.f_globals.get("__name__", "<string>")
    warnings.warn_explicit(message, TwmdWarning, frame.f_code.co_filename, frame.f_lineno, module, registry)


def replace_advice(message: str, replacements: Mapping[str, str]) -> str:
    """Replace advice for Python and the command line with advice for users of another interface."""
    for advice, here in replacements.items():
        message = message.replace(advice, here)
    return message


def listed(items: Iterable[object], limit: int = 20) -> str:
    """List the first items, and how many more there are.

    >>> listed([3, 5, 8], 2)
    '3, 5 and 1 more'
    """
    texts = [*map(str, items)]
    more = len(texts) - limit
    return ", ".join(texts[:limit]) + (f" and {more} more" if more > 0 else "")


def menu(word: str, choices: Iterable[object]) -> str:
    """List the choices for an invalid word, after the closest one, for the end of an error message.

    >>> menu("twdm", ["twmd", "sbert"])
    "did you mean 'twmd'? Choices: twmd, sbert"
    """
    word, names = word.strip("'"), [str(choice) for choice in choices]
    longer = [choice for choice in names if len(word) > 2 and word.lower() in choice.lower()]
    close = longer or difflib.get_close_matches(word, names, n=1)
    hint = f"did you mean {close[0]!r}? Choices" if close else "choices"
    return f"{hint}: {', '.join(names)}"


def visible(text: str) -> str:
    """Escape control characters, so a text cannot break a line or control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def no_column(names: Sequence[str], columns: Iterable[str]) -> str:
    """Describe a missing column of a row or table; used by all readers.

    >>> no_column(["references", "reference"], ["prediction", "refrence"])
    "no column 'references' or 'reference'; did you mean 'refrence'? Choices: prediction, refrence"
    """
    present = list(columns)
    hints = [menu(name, present) for name in names]
    hint = next((text for text in hints if text.startswith("did")), hints[0])
    return f"no column {' or '.join(map(repr, names))}; {hint if present else 'it has none'}"
