"""Words of texts in any script, and the words by which texts differ."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # Kana, Han
)
"""Characters of scripts without blanks between words."""


@functools.cache
def _kind(character: str) -> str:
    category = unicodedata.category(character)
    if character.isspace():
        return "blank"
    if category[0] == "M" or category == "Cf":  # belongs to the character before it, as an accent or a vowel sign does
        return "mark"
    return "alone" if category[0] in "PS" or _UNSPACED.match(character) else "word"


def pieces(text: str) -> list[str]:
    """Split a text into words, punctuation characters and blanks.

    A character of a script without blanks between words is a word. All pieces joined are the text.

    >>> pieces("It rained, twice.")
    ['It', ' ', 'rained', ',', ' ', 'twice', '.']
    """
    found: list[str] = []
    last = ""
    for character in text:
        kind = _kind(character)
        if found and (kind == "mark" or kind == last != "alone"):
            found[-1] += character
        else:
            found.append(character)
        last = last if kind == "mark" else kind
    return found


def words(text: str) -> list[str]:
    """Split a text into its words in lower case, without punctuation.

    >>> words("It rained, twice.")
    ['it', 'rained', 'twice']
    """
    return [piece.casefold() for piece in pieces(text) if any(character.isalnum() for character in piece)]


def mark_differences(predictions: Sequence[str], references: Sequence[str]) -> tuple[list[list[str]], list[list[str]]]:
    """Mark the words by which the texts of one segment differ, as `difflib` aligns words and punctuation characters.

    In a prediction, a word is marked if it has no partner in the closest reference, the one with the highest ratio of
    `difflib`. In a reference, a word is marked if it has no partner in any prediction.

    Args:
        predictions: A text per system.
        references: The segment's references, one or more.

    Returns:
        For every prediction, and for every reference, its text in parts: plain and marked by turns, the first one plain
        (maybe empty).

    >>> mark_differences(["the cat sat"], ["the dog sat"])
    ([['the ', 'cat', ' sat']], [['the ', 'dog', ' sat']])
    """
    split = [[pieces(text) for text in texts] for texts in (predictions, references)]
    own, theirs = ([[piece for piece in text if not piece.isspace()] for text in texts] for texts in split)
    best = [(-1.0, set[int]()) for _ in own]
    partnered = [set[int]() for _ in theirs]
    matcher = SequenceMatcher[str](None)
    for k, reference in enumerate(theirs):
        matcher.set_seq2(reference)
        for i, prediction in enumerate(own):
            matcher.set_seq1(prediction)
            blocks = matcher.get_matching_blocks()
            partnered[k].update(place for block in blocks for place in range(block.b, block.b + block.size))
            if matcher.ratio() > best[i][0]:
                best[i] = matcher.ratio(), {place for block in blocks for place in range(block.a, block.a + block.size)}
    marked = [_parts(text, places) for text, (_, places) in zip(split[0], best, strict=True)]
    return marked, [_parts(text, places) for text, places in zip(split[1], partnered, strict=True)]


def _parts(text: Sequence[str], partnered: set[int]) -> list[str]:
    """Join pieces into plain and marked parts by turns; blanks between two marked words are marked with them."""
    parts, blank, place = [""], "", 0
    for piece in text:
        if piece.isspace():
            blank = piece
            continue
        if (place not in partnered) is (len(parts) % 2 == 0):
            parts[-1] += blank + piece
        elif len(parts) % 2:
            parts[-1] += blank
            parts.append(piece)
        else:
            parts.append(blank + piece)
        blank, place = "", place + 1
    if len(parts) % 2:
        parts[-1] += blank
    elif blank:
        parts.append(blank)
    return parts
