"""`draw`: an alignment as a picture, one heat map per side, to look at in a paper, a browser or a viewer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.errors import FileError, InputError, MissingExtraError, SpecError, menu
from twmd_registry.registry.paths import write_whole
from twmd_registry.report.picture_html import page

if TYPE_CHECKING:
    from twmd_registry.engine.result import Alignment

MOST = 200
"""Tokens of one side that can still be told apart."""


def draw(alignment: Alignment, path: Path) -> None:
    """Draw an alignment: per side, hypothesis tokens as rows, reference tokens as columns, as dark as the plan carries
    much.

    The same alignment gives the same bytes, with the same fonts installed.

    Args:
        alignment: What to draw.
        path: Where to; ``.png`` and ``.svg`` need matplotlib, ``.html`` needs nothing and no network.

    Raises:
        SpecError: Another suffix, or too many tokens.
        InputError: A text without tokens.
        MissingExtraError: matplotlib is not installed.
        FileError: The file cannot be written.

    Warns:
        TwmdWarning: No installed font has all characters of a ``.png``; says which, and what to install.
    """
    write = writer_of(path)
    check_drawable(alignment)
    content = write(alignment)
    try:
        write_whole(path, content)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}.") from error


def check_drawable(alignment: Alignment, most: int = MOST) -> None:
    """Refuse an alignment that makes no picture.

    Args:
        alignment: What to draw.
        most: Tokens of one side that there is room for.

    Raises:
        SpecError: Too many tokens.
        InputError: A text without tokens.
    """
    rows, columns = len(alignment.hypothesis), len(alignment.reference)
    if not rows or not columns:
        raise InputError(f"there is nothing to draw: the {'reference' if rows else 'hypothesis'} has no tokens.")
    if max(rows, columns) > most:
        raise SpecError(
            f"{rows} and {columns} tokens: at most {most} tokens a side can be drawn; explain(i) gives the data."
        )


def writer_of(path: Path) -> Callable[[Alignment], bytes]:
    """What renders the kind of file that a name asks for.

    Raises:
        SpecError: None does.
    """
    suffix = path.suffix.lower()
    if suffix not in WRITERS:
        raise SpecError(f"{path}: unknown suffix {path.suffix!r} for a picture; {menu(suffix, WRITERS)}.")
    return WRITERS[suffix]


def _plotted(suffix: str) -> Callable[[Alignment], bytes]:
    """A writer that takes matplotlib."""

    def write(alignment: Alignment) -> bytes:
        try:
            import matplotlib as mpl  # noqa: F401 (the parts below would be found although the whole is gone)

            from twmd_registry.report.picture_plot import plot
        except ImportError as error:
            raise MissingExtraError(
                f"a picture as {suffix} needs matplotlib: pip install 'twmd-registry[plots]' (.html needs nothing)"
            ) from error
        return plot(alignment, suffix)

    return write


def _html(alignment: Alignment) -> bytes:
    return page(alignment).encode()


WRITERS: dict[str, Callable[[Alignment], bytes]] = {".png": _plotted(".png"), ".svg": _plotted(".svg"), ".html": _html}
"""What renders which kind of file."""
