"""Small edits that change a text's meaning: numbers, units, names and negations. The edited word is also in the
reference, so the edit is an error. Also errors in whole texts, as in MetricX-24.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import regex

from twmd_registry.engine.input_warnings import script_of
from twmd_registry.judgments.rated import RatedSegments, select

Edit = Callable[[str, str, Sequence[str], random.Random], str | None]
"""Edits a prediction, given its reference, names to choose from and random numbers; None if nothing can be edited."""

NUMBER = regex.compile(r"\p{Nd}+")
NAME = regex.compile(r"(?<=\p{Ll} )\p{Lu}\p{Ll}{2,}\b")
"""A capitalised word that does not begin a sentence; in German this may be any noun."""
UNITS = ("km", "m", "cm", "mm"), ("kg", "g", "t"), ("€", "$", "£", "¥"), ("%", "‰"), ("°C", "°F")
"""Interchangeable symbols. Words ("miles") and other scripts ("км") are not changed."""
UNIT = regex.compile(rf"(?<=\p{{Nd}} ?)(?:{'|'.join(regex.escape(u) for row in UNITS for u in row)})(?!\w)|[€$£¥]")
NEGATION = regex.compile(
    r"(?<!\b(?:na|o|po|za|przez)) (?:nicht|nie|keine?|niet|nooit|geen|nunca|não(?! só)|değil|नहीं|না|"
    r"не(?! (?:только|менее|более|раз)\b)|no(?= (?:es|está|hay|puede|tiene|son|era|fue)\b))(?![\w-])|"
    r"(?<![是会會能在所并])不(?=[是会會能在])"
)
"""Negations of German, Dutch, Spanish, Portuguese, Polish, Russian, Turkish, Hindi, Bengali and Chinese, which can be
left out, and mean nothing else in languages that have the same words."""
ENGLISH = regex.compile(r"\b(?:the|and|that|this|with|from|they|he|she|it|you|who|which|would|could|been|his|their)\b")
"""Words that are frequent in English, and rare in other languages."""
VERBS = "is|are|was|were|will|would|can|could|should|must"
ENGLISH_NEGATION = regex.compile(
    rf"(?<=\b(?:{VERBS}|has|have|had|do|does|did))(?: not| ?n['\u2019]t)\b(?! yet| only)|"
    r"(?<=\bcan)(?:not|['\u2019]t)\b|(?<=\b(?:is|are|was|has|had)) no\b(?! longer| one| more| less)| never\b(?! again)"
)
AUXILIARY = regex.compile(rf"(?<!\b(?:the|an?|his|her|their|its|nor) )\b(?:{VERBS})(?= \p{{Ll}})(?! no\b)")
"""English verbs after which ``not`` negates a sentence."""
NEGATIVE = regex.compile(
    r"(?i)n['\u2019]t\b|[不没沒无無]|\b(?:cannot|never|neither|none|nobody|nothing|no[rt]|ni(?:ch|e|kt|gd)\w*|nic|kein\w*|"
    r"nooit|geen|nunca|nad(?:a|ie)|n(?:ing|enh)\w+|nem|não|żad\w+|değil|नहीं|না|не|нет|нельзя|ни\w*)\b"
)
"""Words of a negative text; a text with two of them stays negative without one."""


def _replace(pattern: regex.Pattern[str], text: str, reference: str, other: Callable[[str], str | None]) -> str | None:
    """Replace the first match that is also in the reference and for which `other` has another text."""
    kept = set(pattern.findall(reference))
    for match in pattern.finditer(text):
        if match[0] in kept and (new := other(match[0])) is not None:
            return text[: match.start()] + new + text[match.end() :]
    return None


def edit_number(text: str, reference: str, _names: Sequence[str], draw: random.Random) -> str | None:
    """Change a digit of a number; the script of digits stays."""

    def change(number: str) -> str:
        place = draw.randrange(len(number))
        value = int(number[place])
        least = 1 if place == 0 else 0
        digit = draw.choice([k for k in range(least, 10) if k != value])
        return number[:place] + chr(ord(number[place]) + digit - value) + number[place + 1 :]

    return _replace(NUMBER, text, reference, change)


def edit_unit(text: str, reference: str, _names: Sequence[str], draw: random.Random) -> str | None:
    """Change the symbol of a unit or of a currency."""

    def change(unit: str) -> str:
        (row,) = (row for row in UNITS if unit in row)
        return draw.choice([other for other in row if other != unit])

    return _replace(UNIT, text, reference, change)


def edit_name(text: str, reference: str, names: Sequence[str], draw: random.Random) -> str | None:
    """Replace a name by another of `names` in the same script; only scripts with capital letters mark names."""
    kept = set(NAME.findall(reference))

    def change(name: str) -> str | None:
        others = [other for other in names if other not in kept and script_of(other[0]) == script_of(name[0])]
        return draw.choice(others) if others else None

    return _replace(NAME, text, reference, change)


def edit_negation(text: str, reference: str, _names: Sequence[str], _draw: random.Random) -> str | None:
    """Remove the only negation of a text, or negate an English one without. Questions are unchanged."""
    if regex.search(r"[?\uff1f]$|[әғқңұ]", text):  # in Kazakh, the Russian negation is "or"
        return None
    words, hits = (len(regex.findall(pattern, f"{text} {reference}")) for pattern in (r"\w+", ENGLISH))
    english = hits > max(1, words // 15)
    new = _replace(ENGLISH_NEGATION if english else NEGATION, text, reference, lambda _word: "")
    if new is not None or not english:
        return new if new and not NEGATIVE.search(new) else None
    return None if NEGATIVE.search(text) else _replace(AUXILIARY, text, reference, lambda verb: f"{verb} not")


EDITS: dict[str, Edit] = {"numbers": edit_number, "units": edit_unit, "names": edit_name, "negations": edit_negation}
"""Edits by their names on the command line."""


def edit_pairs(
    predictions: Sequence[str], references: Sequence[str], kinds: Sequence[str], seed: int
) -> list[tuple[int, str]]:
    """Edit every editable prediction by a random one of `EDITS`; return its number and text."""
    draw = random.Random(seed)
    names = sorted({name for text in references for name in NAME.findall(text)})
    edited = []
    for row, (text, reference) in enumerate(zip(predictions, references, strict=True)):
        for kind in draw.sample(sorted(kinds), len(kinds)):
            if (new := EDITS[kind](text, reference, names, draw)) is not None:
                edited.append((row, new))
                break
    return edited


CLAUSE = regex.compile(
    r"[^,;:\u2013\u2014()\u3001\u3002\uff0c\uff1a\uff1b]+[,;:\u2013\u2014()\u3001\u3002\uff0c\uff1a\uff1b]*\s*"
)
SHORTEST_CLAUSE = 8
"""Minimum length of a clause to omit or repeat."""
PUNCTUATION = regex.compile(r"\p{P}")


def _change_clause(text: str, draw: random.Random, times: int) -> str | None:
    """Repeat a clause of a text (or a third of its words) `times` times."""
    clauses = [match for match in CLAUSE.finditer(text) if len(match[0].strip()) >= SHORTEST_CLAUSE]
    if len(clauses) > 1:
        clause = draw.choice(clauses)
        return f"{text[: clause.start()]}{clause[0] * times}{text[clause.end() :]}".strip()
    words = text.split()
    third = len(words) // 3
    if third < 2:
        return None
    start = draw.randrange(len(words) - third)
    return " ".join(words[:start] + words[start : start + third] * times + words[start + third :])


def omit(text: str, _reference: str, _others: Sequence[str], draw: random.Random) -> str | None:
    """Leave out a clause."""
    return _change_clause(text, draw, 0)


def duplicate(text: str, _reference: str, _others: Sequence[str], draw: random.Random) -> str | None:
    """Write a clause twice."""
    return _change_clause(text, draw, 2)


def put_unrelated(_text: str, reference: str, others: Sequence[str], draw: random.Random) -> str | None:
    """Take another fluent text of about the same length."""
    drawn = [other for other in draw.sample(others, min(8, len(others))) if other != reference]
    return min(drawn, key=lambda other: abs(len(other) - len(reference)), default=None)


def garble(text: str, _reference: str, _others: Sequence[str], draw: random.Random) -> str | None:
    """Mix the letters of every word."""
    words = ["".join(draw.sample(word, len(word))) for word in text.split()]
    draw.shuffle(words)
    return " ".join(words)


def spoil_punctuation(text: str, _reference: str, _others: Sequence[str], draw: random.Random) -> str | None:
    """Remove all punctuation, or change every mark."""
    mark = draw.choice(["", "", "!", "?", ";"])
    return str(PUNCTUATION.sub(mark, text))


ERRORS: dict[str, tuple[Edit, float | None]] = {
    **{kind: (edit, 1.0) for kind, edit in EDITS.items()},
    "omission": (omit, 1.0),
    "duplication": (duplicate, 1.0),
    "punctuation": (spoil_punctuation, 0.3),
    "unrelated": (put_unrelated, None),
    "gibberish": (garble, None),
}
"""Errors, and how much lower than the original they are rated, in standard deviations; None for the lowest rating."""


def make_errors(rated: RatedSegments, share: float, lowest: float, seed: int) -> RatedSegments:
    """Return a share of the segments with an error in the output or the reference, each as a separate system; for
    segments with sources, also with the source as output. A reference is rated like the best output of its group.
    """
    draw, errors = random.Random(seed), list[tuple[int, str, float]]()
    references = [texts if isinstance(texts, str) else texts[0] for texts in rated.references]
    names = sorted({name for text in references for name in NAME.findall(text)})
    groups = np.array(rated.group)
    best = {group: float(rated.ratings[groups == group].max()) for group in set(rated.group)}
    kinds = [*ERRORS, *(["source"] if rated.source else [])]
    for row in draw.sample(range(len(references)), int(share * len(references))):
        kind, reference = draw.choice(kinds), references[row]
        whole = draw.random() < 0.5
        text, rating = (reference, best[rated.group[row]]) if whole else (rated.predictions[row], rated.ratings[row])
        if kind == "source":
            errors.append((row, (rated.source or [])[row], lowest))
            continue
        edit, margin = ERRORS[kind]
        new = edit(text, reference, names if kind in EDITS else references, draw)
        if new and new.strip() and new not in {text, reference}:
            errors.append((row, new, lowest if margin is None else max(lowest, rating - margin)))
    rows, texts, ratings = map(list, zip(*errors, strict=True)) if errors else ([], [], [])
    made = select(rated, np.array(rows, dtype=np.int64))
    system = [f"error {number}" for number in range(len(rows))]
    return made._replace(predictions=texts, ratings=np.array(ratings, dtype=np.float64), system=system)
