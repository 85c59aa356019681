"""Small edits by rule to English sentences: some change what is said, some only how it is written."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import numpy as np

from twmd_registry.metaeval.edit_words import ANTONYMS, AUXILIARIES, CONJUNCTIONS, CONTRACTED, DO, NOT_NAMES, NUMBER_WORDS, PERFECT

LONGEST_NAME = 3
"""Words of a name; what is longer is a headline."""
LEAST_WORDS = 3
"""Words of a clause that is dropped, and words that must stay."""


class Edit(StrEnum):
    """What is done to a text."""

    NEGATION = "negation"
    NUMBER = "number"
    NAME = "name"
    ANTONYM = "antonym"
    CLAUSE = "clause"
    CONTRACTION = "contraction"
    QUOTES = "quotes"
    FULL_STOP = "full_stop"


CONTROLS = frozenset({Edit.CONTRACTION, Edit.QUOTES, Edit.FULL_STOP})
"""Edits that keep the meaning."""


class EditSpan(NamedTuple):
    """A piece of a text that an edit replaces.

    Attributes:
        start: Its first character.
        end: The character behind it.
        choices: What may stand there instead, at least one; all different from what stands there.
    """

    start: int
    end: int
    choices: tuple[str, ...]


Names = Mapping[int, tuple[str, ...]]
"""Names by their number of words, sorted."""
Rule = Callable[[str], list[EditSpan]]

_APOSTROPHES = "'\N{RIGHT SINGLE QUOTATION MARK}"
_NOT_INSIDE_A_WORD = rf"(?<![\w{_APOSTROPHES}-])"
_NT = re.compile(rf"{_NOT_INSIDE_A_WORD}({'|'.join(short[:-3] for short in CONTRACTED)}) ?n[{_APOSTROPHES}]t\b")
_NOT = re.compile(rf"{_NOT_INSIDE_A_WORD}({'|'.join((*AUXILIARIES, *PERFECT, *DO))})( not\b(?! only\b))")
_CANNOT = re.compile(r"\bcannot\b")
_BARE = re.compile(
    rf"{_NOT_INSIDE_A_WORD}(?:{'|'.join(AUXILIARIES)}|(?:{'|'.join(PERFECT)})(?= (?:been|\w+ed)\b))"
    rf"(?![\w{_APOSTROPHES}-])(?! ?n[{_APOSTROPHES}]t| not\b| never\b)"
)
_DIGITS = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?!\w)")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LOWER = re.compile(rf"(?<![\w{_APOSTROPHES}])[a-z]+(?![\w{_APOSTROPHES}])")
_BOUNDARY = re.compile(rf"\s*[,;][\"”]?\s+|\s+(?=(?:{'|'.join(CONJUNCTIONS)})\s)")
_CLOSE = re.compile(rf"\s*[.!?…]*\s*[\"”{_APOSTROPHES})\]]*\s*[.!?…]*\s*$")
_LAST_STOP = re.compile(r"(?<=[^\s.])\s*\.\s*$")


def negations(text: str) -> list[EditSpan]:
    """Find where a ``not`` can be put in behind an auxiliary, or taken out.

    >>> [place.choices for place in negations("he is here , but they do n't know it")]
    [(' not',), ('do',)]
    """
    put_in = [EditSpan(found.end(), found.end(), (" not",)) for found in _BARE.finditer(text)]
    taken_out = [EditSpan(*found.span(2), ("",)) for found in _NOT.finditer(text)] + [
        EditSpan(*found.span(), ("can",)) for found in _CANNOT.finditer(text)
    ]
    return put_in + taken_out + [EditSpan(*found.span(), (_positive(found),)) for found in _NT.finditer(text)]


def _positive(contraction: re.Match[str]) -> str:
    return CONTRACTED[f"{contraction[1]}n't"]


def numbers(text: str) -> list[EditSpan]:
    """Find digits, of which one is exchanged, and number words.

    >>> numbers("in 12 of eighty")
    ... # doctest: +ELLIPSIS
    [EditSpan(start=3, end=5, choices=('22', ..., '92', '10', '11', '13', ..., '19')), EditSpan(start=9, end=15, choices=('twenty', ..., 'ninety'))]
    """
    places = [EditSpan(*found.span(), _other_digits(found[0])) for found in _DIGITS.finditer(text)]
    for found in _LOWER.finditer(text):
        places += [EditSpan(*found.span(), tuple(word for word in alike if word != found[0])) for alike in NUMBER_WORDS if found[0] in alike]
    return places


def _other_digits(number: str) -> tuple[str, ...]:
    """Every number of the same form that differs in one digit and does not begin with a 0."""
    return tuple(
        number[:i] + digit + number[i + 1 :]
        for i, old in enumerate(number)
        if old.isdecimal()
        for digit in "0123456789"
        if digit != old and (i or digit != "0")
    )


def antonyms(text: str) -> list[EditSpan]:
    """Find lower-case words that have an antonym in the list (one with a capital may be part of a name).

    >>> antonyms("New prices rose")
    [EditSpan(start=11, end=15, choices=('fell',))]
    """
    return [EditSpan(*found.span(), ANTONYMS[found[0]]) for found in _LOWER.finditer(text) if found[0] in ANTONYMS]


def clauses(text: str) -> list[EditSpan]:
    """Find what can be dropped between a comma, semicolon or conjunction and the next one, or the end.

    >>> text = "The shop was shut, but the baker next door had bread."
    >>> [text[place.start : place.end] for place in clauses(text)]
    [', but the baker next door had bread']
    """
    close, every = _CLOSE.search(text), _count_words(text)
    cuts = [*(found.start() for found in _BOUNDARY.finditer(text)), close.start() if close else len(text)]
    return [
        EditSpan(start, end, ("",)) for start, end in itertools.pairwise(cuts) if LEAST_WORDS <= _count_words(text[start:end]) <= every - LEAST_WORDS
    ]


def _count_words(text: str) -> int:
    return len(re.findall(r"\w+", text))


def contractions(text: str) -> list[EditSpan]:
    """Find ``do not`` that can be ``don't``, and the reverse.

    >>> [place.choices for place in contractions("they do not know and cannot ask , it is n't theirs")]
    [("don't",), ("can't",), ('is not',)]
    """
    short = {verb: contracted for contracted, verb in CONTRACTED.items()}
    places = [EditSpan(*found.span(), (short[found[1]],)) for found in _NOT.finditer(text) if found[1] in short]
    places += [EditSpan(*found.span(), ("can't",)) for found in _CANNOT.finditer(text)]
    whole = [(found, _positive(found)) for found in _NT.finditer(text)]
    return places + [EditSpan(*found.span(), ("cannot" if verb == "can" else f"{verb} not",)) for found, verb in whole]


def quotes(text: str) -> list[EditSpan]:
    r"""Find straight double quotes that can be curly, in pairs, or curly ones that can be straight: the whole text at once.

    >>> quotes('a "b" c')
    [EditSpan(start=0, end=7, choices=('a “b” c',))]
    """
    if "“" in text or "”" in text:
        return [EditSpan(0, len(text), (re.sub("[“”]", '"', text),))]
    pieces = text.split('"')
    if len(pieces) == 1 or len(pieces) % 2 == 0:
        return []
    return [EditSpan(0, len(text), ("".join(piece + "“”"[i % 2] for i, piece in enumerate(pieces[:-1])) + pieces[-1],))]


def full_stops(text: str) -> list[EditSpan]:
    """Find the full stop at the end.

    >>> full_stops("It rains .")
    [EditSpan(start=8, end=10, choices=('',))]
    """
    return [EditSpan(*found.span(), ("",)) for found in _LAST_STOP.finditer(text)]


def names_in(text: str) -> list[EditSpan]:
    """Find names: up to `LONGEST_NAME` words with a capital, behind a word or comma (not at a sentence's start); nothing to choose from yet.

    >>> [place[:2] for place in names_in("Today Angela Merkel met Mr Li on Monday")]
    [(6, 19), (27, 29)]
    """
    runs: list[list[re.Match[str]]] = []
    for word in _WORD.finditer(text):
        before = text[: word.start()].rstrip()
        if not word[0][0].isupper() or len(word[0]) == 1 or word[0] in NOT_NAMES or not before or not (before[-1].isalnum() or before[-1] == ","):
            continue
        if runs and text[runs[-1][-1].end() : word.start()] == " ":
            runs[-1].append(word)
        else:
            runs.append([word])
    return [EditSpan(run[0].start(), run[-1].end(), ()) for run in runs if len(run) <= LONGEST_NAME]


def collect_names(texts: Iterable[str]) -> Names:
    """Gather the names that occur in texts.

    >>> collect_names(["Then Ada met Bo Li", "Then Ada left"])
    {1: ('Ada',), 2: ('Bo Li',)}
    """
    found = sorted({text[place.start : place.end] for text in texts for place in names_in(text)})
    lengths = sorted({len(name.split(" ")) for name in found})
    return {length: tuple(name for name in found if len(name.split(" ")) == length) for length in lengths}


def name_places(text: str, names: Names) -> list[EditSpan]:
    """Find names that are known, and others of as many words that do not occur in the text.

    Args:
        text: The text.
        names: Names that are known.

    >>> name_places("Then Ada left Li", {1: ("Ada", "Bo", "Li"), 2: ("Bo Li",)})
    [EditSpan(start=5, end=8, choices=('Bo',)), EditSpan(start=14, end=16, choices=('Bo',))]
    """
    own = {text[place.start : place.end]: place for place in names_in(text)}
    places = []
    for name, place in own.items():
        alike = names.get(len(name.split(" ")), ())
        others = tuple(other for other in alike if other not in own)
        if name in alike and others:
            places.append(place._replace(choices=others))
    return places


RULES: dict[Edit, Rule] = {
    Edit.NEGATION: negations,
    Edit.NUMBER: numbers,
    Edit.ANTONYM: antonyms,
    Edit.CLAUSE: clauses,
    Edit.CONTRACTION: contractions,
    Edit.QUOTES: quotes,
    Edit.FULL_STOP: full_stops,
}
"""Rules that need nothing but the text."""


def rules_with(names: Names) -> dict[Edit, Rule]:
    """The rule of every edit.

    Args:
        names: What names are replaced by.
    """
    rules = RULES | {Edit.NAME: partial(name_places, names=names)}
    return {edit: rules[edit] for edit in Edit}


def apply_edit(text: str, edit: Edit, rules: Mapping[Edit, Rule], seed: int) -> str | None:
    """Edit a text once, at a place drawn at random and by a choice drawn at random.

    The draw depends on the text, the edit and the seed, not on other texts.

    Args:
        text: The text.
        edit: What is done.
        rules: As from `rules_with`.
        seed: Of the draw.

    Returns:
        The edited text, which differs; None where the edit does not apply.

    >>> apply_edit("Prices rose.", Edit.ANTONYM, rules_with({}), 0)
    'Prices fell.'
    """
    places = rules[edit](text)
    if not places:
        return None
    rng = np.random.default_rng([seed, zlib.crc32(f"{edit}\n{text}".encode())])
    place = places[rng.integers(len(places))]
    return text[: place.start] + place.choices[rng.integers(len(place.choices))] + text[place.end :]
