"""Segments of a report: groups, segments to look at, and words that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

import numpy as np
import regex

from twmd_registry.comparison.cells import MetricColumn, number
from twmd_registry.comparison.verdict import SystemComparison
from twmd_registry.messages import visible

GROUPS = 4
_BLANK, _MARK = r"[\s\x1c-\x1f]", r"[\p{M}\p{Cf}]"
"""A mark, such as an accent or vowel sign, belongs to the preceding character."""
_ALONE = (
    r"[\p{P}\p{S}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # punctuation, signs, Thai, Lao, Burmese, Khmer
    r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # Kana, Han
)
"""Punctuation, and characters of scripts without spaces between words."""
_CLUSTER = rf"\X{_MARK}*"
"""A user-perceived character (UAX 29), such as an emoji of several code points."""
_WORD = rf"(?:(?!{_BLANK}|{_MARK}|{_ALONE}){_CLUSTER})+"
_INNER = r"['\u2019\-\u2010.,:]"
"""Punctuation inside a word: ``don't``, ``well-known``, ``1,000.5``, ``U.S``."""
_PIECE = regex.compile(rf"(?:{_BLANK}{_MARK}*)+|{_WORD}(?:{_INNER}{_WORD})*|(?!{_MARK})(?={_ALONE}){_CLUSTER}|{_MARK}+")
_NUMBER_WORDS = frozenset(
    "zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "  # noqa: SIM905
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion "
    "second third fourth fifth sixth seventh eighth ninth tenth once twice half double dozen".split()
)
_DATES = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april june july august "  # noqa: SIM905
    "september october november december".split()
)
_SENTENCE_END = frozenset(".!?:")


class Highlight(NamedTuple):
    """A segment to look at: its number and the systems' numbers, from 0, and the reason."""

    segment: int
    systems: tuple[int, ...]
    reason: str


def segment_scores(column: MetricColumn) -> np.ndarray:
    """Return a metric's segment scores; shape (systems, segments)."""
    return np.array([cell.scores for cell in column.cells], dtype=np.float64)


def percentile_ranks(column: MetricColumn) -> np.ndarray:
    """Return the share of all other scores that a score beats, where ties count half: ``(rank - 1) / (n - 1)``.

    Ranks are over all systems, from 0 (worst) to 1; NaN for an undefined or single score; shape (systems, segments).
    """
    from scipy.stats import rankdata

    scores = -segment_scores(column) if column.errors else segment_scores(column)
    ranks = np.full(scores.shape, np.nan)
    known = np.isfinite(scores)
    if known.sum() > 1:
        ranks[known] = (rankdata(scores[known]) - 1) / (known.sum() - 1)
    return ranks


def disagreements(columns: Sequence[MetricColumn]) -> np.ndarray:
    """Return the range of the metrics' percentile ranks, NaN for fewer than two; shape (systems, segments)."""
    ranks = np.array([percentile_ranks(column) for column in columns])
    known = np.isfinite(ranks)
    span = np.where(known, ranks, -np.inf).max(axis=0) - np.where(known, ranks, np.inf).min(axis=0)
    return np.where(known.sum(axis=0) > 1, span, np.nan)


def choose_highlights(comparison: SystemComparison, max_segments: int) -> list[Highlight]:
    """Choose up to `max_segments` distinct segments on which not all agree.

    Up to half are those where the first metric separates systems most, the rest those where metrics disagree most.
    """
    chosen: dict[int, Highlight] = {}
    columns, systems = comparison.columns, list(map(visible, comparison.systems))
    first, scores = columns[0], segment_scores(columns[0])
    for segment in _greatest(np.ptp(scores, axis=0))[: max_segments // 2 if len(systems) > 1 else 0]:
        best, worst = int(scores[:, segment].argmax()), int(scores[:, segment].argmin())
        ends = " and ".join(f"{number(first, scores[i, segment])} to {systems[i]}" for i in (best, worst))
        chosen[segment] = Highlight(segment, (best, worst), f"systems differ: {first.name} gives {ends}")
    ranks = np.array([percentile_ranks(column) for column in columns])
    for place in _greatest(disagreements(columns).ravel()):
        system, segment = divmod(place, scores.shape[1])
        if len(chosen) < max_segments and segment not in chosen:
            ranked = ranks[:, system, segment]
            extremes = int(np.nanargmax(ranked)), int(np.nanargmin(ranked))
            high, low = (f"{columns[k].name} ranks it above {ranked[k]:.0%}" for k in extremes)
            reason = f"metrics disagree on {systems[system]}: {high}, and {low}, of all other scores"
            chosen[segment] = Highlight(segment, (system,), reason)
    return list(chosen.values())


def _greatest(values: np.ndarray) -> list[int]:
    """Return the indices of positive numbers, the greatest first; equal numbers stay in order."""
    known = np.where(np.isfinite(values), values, -np.inf)
    return [place for place in np.argsort(-known, kind="stable").tolist() if known[place] > 0]


def group_by(values: np.ndarray) -> list[np.ndarray]:
    """Split segments by ascending value into up to `GROUPS` groups of similar size; equal values stay together.

    Returns the segments' indices per group, without segments whose value is NaN.
    """
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return []
    highest = np.unique(np.quantile(values[known], np.arange(1, GROUPS + 1) / GROUPS, method="lower"))
    group = np.searchsorted(highest, values[known])
    return [known[group == k] for k in range(len(highest))]


def reference_lengths(references: Sequence[Sequence[str]]) -> np.ndarray:
    """Count the words of every segment's first reference; shape (segments,)."""
    return np.array([len(split_words(texts[0])) for texts in references], dtype=np.float64)


def word_frequencies(references: Sequence[Sequence[str]]) -> np.ndarray:
    r"""Return the mean word frequency of every segment's first reference: :math:`\exp(\frac{1}{n} \sum_i \log c_i)`.

    :math:`c_i` counts its i-th word in all references of all segments. Values are at least 1, or NaN if the first
    reference has no word; shape (segments,).
    """
    split = [[split_words(text) for text in texts] for texts in references]
    counts = Counter(word for texts in split for text in texts for word in text)
    return np.array(
        [np.exp(np.mean([np.log(counts[word]) for word in texts[0]])) if texts[0] else np.nan for texts in split]
    )


def split_words(text: str) -> list[str]:
    """Split a text into lower-case words, without punctuation."""
    return [piece.casefold() for piece in split_pieces(text) if any(character.isalnum() for character in piece)]


def split_pieces(text: str) -> list[str]:
    """Split a text into words, punctuation characters and white space; joined, they are the text.

    In a script without spaces between words, every character is a word.

    >>> split_pieces("It rained, twice.")
    ['It', ' ', 'rained', ',', ' ', 'twice', '.']
    """
    pieces: list[str] = _PIECE.findall(text)
    return pieces


def mark_differences(
    predictions: Sequence[str], references: Sequence[str], facts: Collection[str] = ()
) -> tuple[list[list[str]], list[list[str]]]:
    """Mark the words in which a segment's texts differ, by `difflib`'s alignment of words and punctuation.

    In a prediction these are words without a counterpart in the closest reference; in a reference, words without one in
    any prediction. `facts`, in lower case, are always marked, as separate parts. Returns every text as alternating
    plain and marked parts, starting with a plain one (maybe empty).

    >>> mark_differences(["the cat sat"], ["the dog sat"])
    ([['the ', 'cat', ' sat']], [['the ', 'dog', ' sat']])
    """
    split = [[split_pieces(text) for text in texts] for texts in (predictions, references)]
    words, theirs = ([[piece for piece in text if not piece.isspace()] for text in texts] for texts in split)
    best = [(-1.0, set[int]()) for _ in words]
    matched = [set[int]() for _ in theirs]
    matcher = SequenceMatcher[str](None)
    for k, reference in enumerate(theirs):
        matcher.set_seq2(reference)
        for i, prediction in enumerate(words):
            matcher.set_seq1(prediction)
            blocks = matcher.get_matching_blocks()
            matched[k].update(place for block in blocks for place in range(block.b, block.b + block.size))
            if matcher.ratio() > best[i][0]:
                best[i] = matcher.ratio(), {place for block in blocks for place in range(block.a, block.a + block.size)}
    marked = [_parts(text, places, facts) for text, (_, places) in zip(split[0], best, strict=True)]
    return marked, [_parts(text, places, facts) for text, places in zip(split[1], matched, strict=True)]


def changed_facts(predictions: Sequence[str], references: Sequence[str]) -> list[str]:
    """Return the numbers and names, in lower case, that only a prediction or only a reference has.

    A reader checks these first.

    >>> changed_facts(["On Tuesday two cats came."], ["Three cats came on Monday."])
    ['monday', 'three', 'tuesday', 'two']
    """
    sides = [[set(_facts(text)) for text in texts] for texts in (predictions, references)]
    words = [{word for text in texts for word in split_words(text)} for texts in (predictions, references)]
    found = {fact for side, other in ((0, 1), (1, 0)) for facts in sides[side] for fact in facts - words[other]}
    return sorted(found)


def _facts(text: str) -> list[str]:
    """Return numbers and names: digits, number words, days, months, and capitalised words inside a sentence."""
    facts, begins = list[str](), True
    for piece in split_pieces(text):
        word = piece.casefold()
        if any(character.isalnum() for character in piece):
            is_name = piece[0].isupper() and not begins and word != "i"
            if is_name or word in _NUMBER_WORDS or word in _DATES or any(character.isdigit() for character in piece):
                facts.append(word)
            begins = False
        begins = begins or piece in _SENTENCE_END
    return facts


def _parts(pieces: Sequence[str], matched: set[int], facts: Collection[str]) -> list[str]:
    """Join pieces into alternating plain and marked parts; space between two marked words is marked too."""
    words = np.cumsum([not piece.isspace() for piece in pieces]) - 1
    is_fact = [piece.casefold() in facts for piece in pieces]
    marks = [
        not piece.isspace() and int(word) not in matched and not fact
        for piece, word, fact in zip(pieces, words, is_fact, strict=True)
    ]
    parts = [""]
    for i, piece in enumerate(pieces):
        if is_fact[i]:
            parts += [piece, ""] if len(parts) % 2 else ["", piece, ""]
            continue
        marked = all(marks[i - 1 : i + 2 : 2]) and 0 < i < len(pieces) - 1 if piece.isspace() else marks[i]
        if marked is (len(parts) % 2 == 0):
            parts[-1] += piece
        else:
            parts.append(piece)
    return parts
