"""Edits of a text that change its meaning by little text: numbers, units, names and negations, in any language.

What is edited is in the reference, too, so that the edit is an error. Texts are split by Unicode's properties; the
only words are those of negations.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import regex

Edit = Callable[[str, str, Sequence[str], random.Random], str | None]
"""Returns an edited prediction, given its reference, names to choose from and random numbers; None where nothing can be
edited."""

NUMBER = regex.compile(r"\p{Nd}+")
NAME = regex.compile(r"(?<=\p{Ll} )\p{Lu}\p{Ll}{2,}\b")
"""A capitalised word that does not begin a sentence."""
UNITS = ("km", "m", "cm", "mm"), ("kg", "g", "t"), ("€", "$", "£", "¥"), ("%", "‰"), ("°C", "°F")
"""Units that stand for one another, in the writing of all languages."""
UNIT = regex.compile(rf"(?<=\p{{Nd}} ?)(?:{'|'.join(regex.escape(u) for row in UNITS for u in row)})(?!\w)|[€$£¥]")
NEGATIONS = (
    *("not", "never", "no", "nicht", "nie", "kein", "keine", "pas", "jamais", "no", "nunca", "non", "mai", "não"),
    *("niet", "nooit", "geen", "nie", "nigdy", "не", "никогда", "ne", "nikdy", "ei", "nu", "değil", "नहीं", "না"),
)
NEGATION = regex.compile(rf"\b(?:{'|'.join(map(regex.escape, dict.fromkeys(NEGATIONS)))})\b|[不没]", regex.IGNORECASE)
AUXILIARY = regex.compile(r"\b(?:is|are|was|were|will|would|can|could|should|must|has|have|had)\b(?! not\b)")
"""English verbs after which ``not`` negates a sentence."""


def _replace(pattern: regex.Pattern[str], text: str, reference: str, other: Callable[[str], str | None]) -> str | None:
    """Replace the first match that is in the reference, too, and that `other` has another text for."""
    own = set(pattern.findall(reference))
    for found in pattern.finditer(text):
        if found[0] in own and (new := other(found[0])) is not None:
            return text[: found.start()] + new + text[found.end() :]
    return None


def edit_number(text: str, reference: str, _names: Sequence[str], draw: random.Random) -> str | None:
    """Change a digit of a number; the script of digits stays.

    >>> edit_number("in 7 days", "within 7 days", (), random.Random(1))
    'in 2 days'
    """

    def change(number: str) -> str:
        place = draw.randrange(len(number))
        value = int(number[place])
        least = 1 if place == 0 else 0
        digit = draw.choice([k for k in range(least, 10) if k != value])
        return number[:place] + chr(ord(number[place]) + digit - value) + number[place + 1 :]

    return _replace(NUMBER, text, reference, change)


def edit_unit(text: str, reference: str, _names: Sequence[str], draw: random.Random) -> str | None:
    """Change a unit or a currency.

    >>> edit_unit("5 km away", "5 km off", (), random.Random(1))
    '5 m away'
    """

    def change(unit: str) -> str:
        (row,) = (row for row in UNITS if unit in row)
        return draw.choice([other for other in row if other != unit])

    return _replace(UNIT, text, reference, change)


def edit_name(text: str, reference: str, names: Sequence[str], draw: random.Random) -> str | None:
    """Change a name to another of `names`; only scripts with capital letters mark names.

    >>> edit_name("he saw Prague", "he saw Prague", ["Prague", "Vienna"], random.Random(1))
    'he saw Vienna'
    """
    others = sorted(set(names) - set(NAME.findall(reference)))
    return _replace(NAME, text, reference, lambda _name: draw.choice(others)) if others else None


def edit_negation(text: str, reference: str, _names: Sequence[str], _draw: random.Random) -> str | None:
    """Leave out a negation; in English, add one where there is none.

    >>> edit_negation("it is not late", "it is not late", (), random.Random(1))
    'it is late'
    >>> edit_negation("it is late", "it is late", (), random.Random(1))
    'it is not late'
    """
    without = _replace(NEGATION, text, reference, lambda _word: "")
    if without is not None or NEGATION.search(text):
        return without and without.replace("  ", " ").strip()
    return _replace(AUXILIARY, text, reference, lambda verb: f"{verb} not")


EDITS: dict[str, Edit] = {
    "numbers": edit_number,
    "units": edit_unit,
    "names": edit_name,
    "negations": edit_negation,
}
"""Edits by their names on the command line."""


def edit_pairs(
    predictions: Sequence[str], references: Sequence[str], kinds: Sequence[str], seed: int
) -> list[tuple[int, str]]:
    """Edit every prediction that can be edited, in a way drawn from those `EDITS` that can edit it; return its number
    and the edited text.
    """
    draw = random.Random(seed)  # noqa: S311 (no secret)
    names = sorted({name for text in references for name in NAME.findall(text)})
    edited = []
    for row, (text, reference) in enumerate(zip(predictions, references, strict=True)):
        for kind in draw.sample(sorted(kinds), len(kinds)):
            if (new := EDITS[kind](text, reference, names, draw)) is not None:
                edited.append((row, new))
                break
    return edited
