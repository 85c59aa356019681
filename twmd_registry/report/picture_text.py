"""The words of a picture: labels that are safe and short, headings, and fonts that have their characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twmd_registry.errors import visible
from twmd_registry.registry.names import Output

if TYPE_CHECKING:
    from matplotlib.font_manager import FontEntry

    from twmd_registry.engine.result import Alignment

LONGEST_LABEL = 24
"""Columns of a terminal that a label may take: a wide character takes two."""
JOINERS = "\u200c\u200d"
"""Not printable by themselves, but part of how Persian words and many emoji are written."""
BASE_FONT = "DejaVu Sans"
"""Matplotlib brings it along."""
BOX = "□"
"""Stands for a character that no font has."""
NO_FONT = ("Last Resort", "STIX", "cm", "DejaVu Sans Display", "DejaVu Serif Display")
"""Beginnings of the names of fonts that are of no use for text."""
HEADINGS = {
    "precision": "precision: each hypothesis token's share, given to the reference",
    "recall": "recall: each reference token's share, given to the hypothesis",
    "score": "one plan for both texts",
}


class Script(NamedTuple):
    """Characters that one font usually has.

    Attributes:
        name: As a warning says it.
        font: What to install to have them.
    """

    name: str
    font: str


EAST_ASIAN = {
    "CJK": "CJK ideographs",
    "HIRAGANA": "kana",
    "KATAKANA": "kana",
    "HANGUL": "Hangul",
    "BOPOMOFO": "Bopomofo",
}
EMOJI = Script("emoji", "Noto Emoji")


class AxisMarginals(NamedTuple):
    """What belongs to one axis of a heat map.

    Attributes:
        shares: How much each token counts.
        sums: What the plan's rows or columns sum to.
        differ: Whether these are not the same.
    """

    shares: np.ndarray
    sums: np.ndarray
    differ: bool


def marginals(alignment: Alignment, side: str) -> tuple[AxisMarginals, AxisMarginals]:
    """Along the hypothesis and along the reference."""
    plan = alignment.plans[side]
    pairs = (alignment.hypothesis_shares, plan.sum(1)), (alignment.reference_shares, plan.sum(0))
    first, second = (
        AxisMarginals(shares, sums, not np.allclose(shares, sums, rtol=1e-3, atol=1e-6)) for shares, sums in pairs
    )
    return first, second


def title(alignment: Alignment) -> str:
    """Metric, output and score, as the picture is headed."""
    spec = alignment.signature.spec
    output = f", {'F1' if spec.output is Output.F1 else spec.output}" if spec.output else ""
    return f"{spec.metric}{output}: {alignment.score:.4f}"


def shown(token: str) -> str:
    """A token with every control character written out, and with something to see if it is blank."""
    if not token.strip(" "):
        return "␣" * len(token) or "∅"
    return "".join(c if c in JOINERS else visible(c) for c in token)


def label(token: str) -> str:
    """A token as it stands beside its row: `shown`, and shortened with an ellipsis.

    >>> label("Donaudampfschifffahrtsgesellschaft")
    'Donaudampfschifffahrtsg…'
    """
    text = shown(token)
    if sum(map(_columns, text)) <= LONGEST_LABEL:
        return text
    kept, room = "", LONGEST_LABEL - 1
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept += character
    return kept.rstrip(JOINERS) + "…"


def _columns(character: str) -> int:
    """How many columns of a terminal a character takes."""
    if unicodedata.combining(character) or character in JOINERS:
        return 0
    return 2 if wide(character) else 1


def wide(character: str) -> bool:
    """Whether a character is about as wide as it is high."""
    return unicodedata.east_asian_width(character) in "WF"


def unseen(character: str) -> bool:
    """Whether a character only says how its neighbours are drawn: joiners and variation selectors."""
    return character in JOINERS or "\ufe00" <= character <= "\ufe0f"


def families(characters: Iterable[str]) -> tuple[list[str], set[str]]:
    """Find installed fonts for characters.

    Args:
        characters: What is to be drawn.

    Returns:
        The fonts' names, the first of them for most text, and the characters that none of them has.
    """
    names = [BASE_FONT]
    missing = set(characters) - _covered_by(BASE_FONT)
    for entry in (
        sorted(_installed(), key=lambda entry: (not entry.name.startswith("Noto"), entry.name, entry.fname))
        if missing
        else ()
    ):
        if entry.name not in names and missing & _characters(entry.fname):
            here = missing & _covered_by(entry.name)
            if here:
                names.append(entry.name)
                missing -= here
        if not missing:
            break
    return names, missing


def _installed() -> list[FontEntry]:
    """Upright fonts of normal weight."""
    from matplotlib.font_manager import fontManager

    regular = (
        entry for entry in fontManager.ttflist if entry.style == "normal" and entry.weight in (400, "normal", "regular")
    )
    return [entry for entry in regular if not entry.name.startswith(NO_FONT)]


def _covered_by(family: str) -> frozenset[str]:
    """What the file has that matplotlib takes for a family."""
    from matplotlib.font_manager import FontProperties, findfont

    try:
        return _characters(str(findfont(FontProperties(family=[family]), fallback_to_default=False)))
    except ValueError:
        return frozenset()


@lru_cache(maxsize=4096)
def _characters(file: str) -> frozenset[str]:
    """What a font file has; nothing if it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(file).get_charmap()))
    except (OSError, RuntimeError, ValueError):
        return frozenset()


def lacking(missing: set[str]) -> str:
    """Say which characters no font has, of which scripts, and what to install."""
    scripts: dict[Script, list[str]] = {}
    for character in sorted(missing):
        scripts.setdefault(_script(character), []).append(character)
    listed = "; ".join(
        f"{script.name}: {''.join(found[:10])}{'…' if len(found) > 10 else ''}" for script, found in scripts.items()
    )
    fonts = " and ".join(dict.fromkeys(script.font for script in scripts))
    which = "this character" if len(missing) == 1 else f"{len(missing)} of these characters"
    return (
        f"no installed font has {which} ({listed}): install {fonts}, or write .svg or .html, which use the reader's "
        "fonts."
    )


def _script(character: str) -> Script:
    """The script of a character, by its name's first word."""
    first = unicodedata.name(character, "").partition(" ")[0].partition("-")[0]
    if first in EAST_ASIAN:
        return Script(EAST_ASIAN[first], "Noto Sans CJK")
    if unicodedata.category(character) in ("So", "Sk") and (
        ord(character) >= 0x1F000 or 0x2600 <= ord(character) < 0x2800
    ):
        return EMOJI
    if unicodedata.category(character).startswith("L"):
        return Script(first.capitalize(), f"Noto Sans {first.capitalize()}")
    return Script("symbols", "Noto Sans Symbols")
