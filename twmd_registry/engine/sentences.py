"""``align=sentences``: the sentences of a document and of its reference are matched in order, and scored in pairs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from twmd_registry.engine.pairs import Pairs
from twmd_registry.engine.token_vectors import TokenItems
from twmd_registry.messages import warn
from twmd_registry.registry.references import is_blank
from twmd_registry.tensors import FLAGS, TEXT_FLAGS, TokenVectors, span_indices

SentenceLink = tuple[slice, slice]
"""The neighbouring sentences of the prediction and of the reference that are compared with each other."""
SIZES = ((1, 1), (2, 1), (1, 2))
"""How many sentences of both sides a link may hold; of equally good links the first is taken."""
ROUNDING = 1e-6
"""Cosines that differ by less are equal: the order in which a processor adds decides about no best match."""
SENTENCE_COUNTS = ("links", "unmatched_predictions", "unmatched_references")
"""The rows that follow the scores of documents."""


def split_documents(pairs: Pairs) -> tuple[Pairs, list[list[int]]]:
    """Split the texts of pairs into lines that are not blank, and return the k-th sentences of both sides as pairs,
    the shorter side filled up with the text 0, which is empty; and the numbers of every text's sentences. `counts` and
    `starts` are those of document pairs.
    """
    number = {"": 0}
    sentences = [
        [number.setdefault(line, len(number)) for line in text.split("\n") if not is_blank(line)] or [0]
        for text in pairs.texts
    ]
    sides = [[sentences[i] for i in side.tolist()] for side in (pairs.hyp, pairs.ref)]
    counts = np.array([max(map(len, both)) for both in zip(*sides, strict=True)], dtype=np.int64)
    if counts.max(initial=0) < 2:
        warn("align=sentences: no text has two lines, which are its sentences (--docs or --doc-column join rows).")
    hyp, ref = (
        np.array([i for ids, n in zip(side, counts, strict=True) for i in ids + [0] * (n - len(ids))], dtype=np.int64)
        for side in sides
    )
    segment = np.repeat(pairs.segment, counts)
    split = pairs._replace(
        texts=list(number), hyp=hyp, ref=ref, segment=segment, counts=counts, starts=np.cumsum(counts) - counts
    )
    return split, sentences


def flags_of_documents(flags: np.ndarray, sentences: list[list[int]]) -> np.ndarray:
    """Return the flags of documents: those of any of their sentences, but empty only where all are."""
    by_document = np.zeros(len(sentences), TEXT_FLAGS)
    for document, rows in enumerate(sentences):
        for name in FLAGS:
            by_document[name][document] = flags[name][rows].any()
        by_document["empty"][document] = flags["empty"][rows].all()
        by_document["missing"][document] = tuple(chain.from_iterable(words or () for words in flags["missing"][rows]))
    return by_document


def match_sentences(hyp: np.ndarray, ref: np.ndarray) -> list[SentenceLink]:
    """Return the links, in order, with the largest sum of ``cos - b``, by dynamic programming in O(nm), from the summed
    token vectors of every sentence, shapes (n, D) and (m, D).

    Links are monotone and share no sentence. ``cos`` is that of the summed vectors of both sides; b is the mean cosine
    of two sentences neither of which is the other's best match, so that unrelated sentences stay unmatched.
    """
    n, m, cosines = len(hyp), len(ref), _cosines(hyp, ref)
    unrelated = np.logical_and(*(cosines < cosines.max(axis, keepdims=True) - ROUNDING for axis in (0, 1)))
    b = cosines[unrelated].mean() if unrelated.any() else 0.0
    x, y = ({1: side, 2: side[:-1] + side[1:]} for side in (hyp, ref))
    gains = {(hyps, refs): _cosines(x[hyps], y[refs]) - b for hyps, refs in SIZES}
    best = np.zeros((n + 1, m + 1))  # of the first i and j sentences
    for i in range(1, n + 1):
        row = best[i - 1].copy()
        for hyps, refs in SIZES:
            if hyps <= i and refs <= m:
                row[refs:] = np.maximum(row[refs:], best[i - hyps, : m + 1 - refs] + gains[hyps, refs][i - hyps])
        best[i] = np.maximum.accumulate(row)
    links, i, j = list[SentenceLink](), n, m
    while i and j:
        for hyps, refs in SIZES:
            before = i - hyps, j - refs
            if min(before) >= 0 and best[i, j] == best[before] + gains[hyps, refs][before]:
                links.append((slice(before[0], i), slice(before[1], j)))
                i, j = before
                break
        else:
            i, j = (i - 1, j) if best[i, j] == best[i - 1, j] else (i, j - 1)
    return links[::-1]


def _cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the cosines of all vectors of two lists, 0 for a vector without direction."""
    scaled = [side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-12) for side in (x, y)]
    return np.asarray(scaled[0] @ scaled[1].T)


def match_documents(
    units: TokenVectors, items: TokenItems, pairs: Pairs, chunk: slice
) -> tuple[TokenVectors, TokenItems, Callable[..., Tensor], slice]:
    """Match the sentences of every document pair in a chunk of `split_documents` by the units that are compared.

    Returns the units of all K links, first those of predictions; the links' sides as items; a function from the scores
    of links, shape (3, K), to those of documents; and which documents these are.
    """
    device = units.lengths.device
    weighted = units.vectors if units.weights is None else units.vectors * units.weights[:, None]
    owner = torch.repeat_interleave(units.lengths)
    sums = weighted.new_zeros(len(units.lengths), weighted.shape[1]).index_add(0, owner, weighted)
    pooled = sums.cpu().numpy()  # (I, D)
    place = slice(*np.searchsorted(pairs.starts, [chunk.start, chunk.stop]).tolist())
    sides: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    document, sentences = list[int](), np.zeros((2, place.stop - place.start))
    for d, (start, count) in enumerate(zip(pairs.starts[place].tolist(), pairs.counts[place].tolist(), strict=True)):
        rows = slice(start - chunk.start, start - chunk.start + count)
        n, m = (
            int(np.count_nonzero(side[start : start + count])) for side in (pairs.hyp, pairs.ref)
        )  # text 0 fills up
        n, m = (n, m) if n or m else (1, 1)  # two empty documents match each other
        pair_items = items.hyp[rows][:n], items.ref[rows][:m]
        links = match_sentences(pooled[pair_items[0]], pooled[pair_items[1]]) if n and m else []
        for k in range(2):
            sides[k].extend(pair_items[k][link[k]] for link in links)
        document += [d] * len(links)
        sentences[:, d] = n, m
    every = [*sides[0], *sides[1]]
    parts = np.concatenate([np.zeros(0, dtype=np.int64), *every])  # the items of all sides
    linked = np.array([len(side) for side in every], dtype=np.int64)
    at = torch.from_numpy(parts).to(device)
    positions = span_indices((torch.cumsum(units.lengths, 0) - units.lengths)[at], units.lengths[at])
    owners = torch.from_numpy(np.repeat(np.arange(len(every)), linked)).to(device)
    lengths = units.lengths.new_zeros(len(every)).index_add(0, owners, units.lengths[at])
    weights = None if units.weights is None else units.weights[positions]
    vectors = units.vectors.index_select(0, positions)
    number = np.arange(len(document))
    matched = items._replace(row=items.row[parts[np.cumsum(linked) - linked]], hyp=number, ref=number + len(document))
    numbers = (np.array(document, dtype=np.int64), linked.reshape(2, len(document)).astype(float), sentences)
    average = partial(_average, *(torch.from_numpy(array).to(device) for array in numbers))
    return TokenVectors(vectors, lengths, weights=weights, rounding=units.rounding[positions]), matched, average, place


def _average(document: Tensor, linked: Tensor, sentences: Tensor, scores: Tensor, *, one_sided: bool) -> Tensor:
    """Return the scores of documents: every sentence has the score of its link, or 0 without one.

    Precision is the mean over the n sentences of the prediction, recall over the m of the reference, F1 (and the score
    of a one-sided metric, the only row then) over those of both, ``sum_k (a_k + b_k) s_k / (n + m)`` with a_k and b_k
    the sentences of a link. `SENTENCE_COUNTS` follow; shape (6 or 4, D).
    """
    of_links, of_documents = (torch.cat([side, side.sum(0, keepdim=True)]) for side in (linked, sentences))
    rows = torch.cat([scores * of_links / of_documents.clamp(min=1)[:, document], torch.ones_like(linked[:1]), linked])
    totals = rows.new_zeros(len(rows), sentences.shape[1]).index_add(1, document, rows)  # (6, D)
    totals[4:] = sentences - totals[4:]
    return totals[2:] if one_sided else totals
