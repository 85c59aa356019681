"""Pairs of words of a corpus, drawn or all of them: what the similarities of section 5 of the TWMD paper are taken
over.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from twmd_registry.encode.tokenization import TokenIds


class Similarity(StrEnum):
    """Which two words are compared.

    ``random``: any two of the corpus (the baseline). ``self``: one word in two different sentences; every word that is
    in two
    sentences counts the same. ``intra``: two different words of one sentence; every sentence that has two counts the
    same.
    """

    RANDOM = "random"
    SELF = "self"
    INTRA = "intra"


class CorpusWords(NamedTuple):
    """The words of a corpus in a row: every token that is not special. W is their number.

    Attributes:
        ids: Token ids; shape (W,).
        text: The text that each is in; shape (W,).
        sentence: The same, but texts of the same tokens are one sentence; shape (W,).
    """

    ids: np.ndarray
    text: np.ndarray
    sentence: np.ndarray


class WordPairs(NamedTuple):
    """Some pairs of words; P is their number.

    Attributes:
        first: Places in the corpus; shape (P,).
        second: Likewise.
        weight: How much each counts, summing to one; shape (P,).
        complete: Whether these are all pairs there are, and not a sample.
    """

    first: np.ndarray
    second: np.ndarray
    weight: np.ndarray
    complete: bool


def words_of(tokens: TokenIds) -> CorpusWords:
    """The words of tokenised texts."""
    own = [ids[special == 0] for ids, special in zip(tokens.ids, tokens.special, strict=True)]
    text = np.repeat(np.arange(len(own)), [len(ids) for ids in own])
    numbers: dict[bytes, int] = {}
    sentence = np.array([numbers.setdefault(ids.tobytes(), len(numbers)) for ids in own])
    return CorpusWords(np.concatenate(own), text, sentence[text])


def pair_words(
    similarity: Similarity, words: CorpusWords, unknown_id: int | None, pairs: int, rng: np.random.Generator
) -> WordPairs:
    """Pair the words of a corpus: all pairs where there are at most `pairs`, else so many, drawn with replacement.

    Args:
        similarity: Which words may be paired.
        words: The corpus.
        unknown_id: The token of unknown words, which is not one word and is no word's partner in ``self``.
        pairs: Most pairs.
        rng: What draws them.
    """
    places = np.arange(len(words.ids))
    if similarity is Similarity.RANDOM:
        return _pair(places, np.zeros_like(places), places, pairs, rng)
    if similarity is Similarity.INTRA:
        return _pair(places, words.text, words.ids, pairs, rng)
    known = places if unknown_id is None else places[words.ids != unknown_id]
    return _pair(known, words.ids[known], words.sentence[known], pairs, rng)


def _pair(
    places: np.ndarray, stratum: np.ndarray, label: np.ndarray, pairs: int, rng: np.random.Generator
) -> WordPairs:
    """Pair places of one stratum whose labels differ; every stratum that has such a pair counts the same.

    In the order of strata and labels, all ordered pairs have a number: those of the first place come first, then those
    of the
    second. Drawing a pair is drawing a number.
    """
    order = np.lexsort((label, stratum))
    places, stratum, label = places[order], stratum[order], label[order]
    stratum_start, stratum_stop = _runs(stratum[:, None])
    label_start, label_stop = _runs(np.stack([stratum, label], axis=1))
    others = (stratum_stop - stratum_start) - (label_stop - label_start)  # partners of every place
    ends = np.cumsum(others)
    starts = np.unique(stratum_start[others > 0])  # of the strata that count
    sizes = ends[stratum_stop[starts] - 1] - (ends - others)[starts]  # ordered pairs of each
    complete = int(sizes.sum()) <= 2 * pairs
    if complete:
        number = np.arange(int(sizes.sum()))
    else:
        drawn = rng.integers(len(starts), size=pairs)
        number = (ends - others)[starts][drawn] + rng.integers(sizes[drawn])
    first = np.searchsorted(ends, number, side="right")
    second = stratum_start[first] + number - (ends - others)[first]
    second = np.where(second < label_start[first], second, second + (label_stop - label_start)[first])
    weight = np.full(len(first), 1 / max(len(first), 1))
    if complete:
        once = first < second
        first, second = first[once], second[once]
        weight = 2 / (len(starts) * sizes[np.searchsorted(starts, stratum_start[first])])
    return WordPairs(places[first], places[second], weight, complete)


def _runs(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the run of equal rows that each row is in starts and stops; rows (W, keys) to two of shape (W,)."""
    new = np.r_[True, (keys[1:] != keys[:-1]).any(axis=1)][: len(keys)]
    starts = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    return starts[run], np.r_[starts[1:], len(keys)][run]
