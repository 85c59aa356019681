"""``align=sentences``: match the sentences of two documents in order, and score the matches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from twmd_registry.engine.pairs import Pairs
from twmd_registry.engine.token_vectors import TokenItems
from twmd_registry.messages import warn
from twmd_registry.registry.references import is_blank
from twmd_registry.tensors import FLAGS, TEXT_FLAGS, TextFacts, TokenVectors, span_indices


class SentenceLink(NamedTuple):
    """Adjacent sentences of the hypothesis and of the reference that are compared."""

    hypothesis: slice
    reference: slice


SIZES = ((1, 1), (2, 1), (1, 2))
"""Sentences per side of a link. The first of equally good links wins."""
ROUNDING = 1e-6
"""Cosines that differ by less count as equal, so the order of additions does not affect matches."""
SENTENCE_COUNTS = np.dtype([(name, np.int64) for name in ("links", "unmatched_predictions", "unmatched_references")])
"""Counts of a pair of documents: links, and sentences without one on either side."""


def split_documents(pairs: Pairs) -> tuple[Pairs, list[list[int]]]:
    """Split texts into sentences (their non-blank lines), and pair the k-th sentences of both sides.

    The shorter side is padded with text 0, which is empty. `counts` and `starts` are by pair of documents.

    Returns:
        The pairs of sentences, and the sentences of each text.
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


def facts_of_documents(facts: TextFacts, sentences: list[list[int]]) -> TextFacts:
    """Return facts about documents: a flag is set if any sentence has it, except ``empty``, which all must have."""
    flags, by_document, missing = facts.flags, np.zeros(len(sentences), TEXT_FLAGS), dict[int, tuple[str, ...]]()
    for document, rows in enumerate(sentences):
        for name in FLAGS:
            by_document[name][document] = flags[name][rows].any()
        by_document["empty"][document] = flags["empty"][rows].all()
        if words := [word for row in rows for word in facts.missing.get(row, ())]:
            missing[document] = tuple(words)
    return TextFacts(by_document, missing)


def match_sentences(hyp: np.ndarray, ref: np.ndarray) -> list[SentenceLink]:
    """Find the links with the largest sum of ``cos - b``, by dynamic programming in O(nm).

    Links are in order and have no sentence in common. ``cos`` compares the summed token vectors of both sides. b is the
    mean cosine of sentences that are not each other's best match; below it, sentences stay unmatched.

    Args:
        hyp: Summed token vectors of each sentence; shape (n, D).
        ref: Likewise; shape (m, D).
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
                links.append(SentenceLink(slice(before[0], i), slice(before[1], j)))
                i, j = before
                break
        else:
            i, j = (i - 1, j) if best[i, j] == best[i - 1, j] else (i, j - 1)
    return links[::-1]


def _cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the cosine of each x with each y; 0 for a zero vector."""
    scaled = [side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-12) for side in (x, y)]
    return np.asarray(scaled[0] @ scaled[1].T)


class MatchedDocuments(NamedTuple):
    """The K links of D pairs of documents."""

    units: TokenVectors  # Of each link's hypothesis, then of each link's reference
    items: TokenItems  # Each side of a link is an item
    place: slice  # The pairs of documents
    document: Tensor  # The pair that a link belongs to; shape (K,)
    linked: Tensor  # Sentences in each side of a link; shape (2, K)
    sentences: Tensor  # Sentences of both documents; shape (2, D)
    counts: np.ndarray  # `SENTENCE_COUNTS`; shape (D,)

    def average(self, scores: Tensor, *, one_sided: bool) -> Tensor:
        """Average the scores of links, shape (3, K): a sentence has the score of its link, or 0 without one.

        Precision is the mean over the n sentences of the hypothesis, recall over the m of the reference. F1, and each
        side of a one-sided metric, is the mean over both: ``sum_k (a_k + b_k) s_k / (n + m)``, with a_k and b_k
        sentences in link k; shape (3, D).
        """
        both = [torch.cat([side, side.sum(0, keepdim=True)]) for side in (self.linked, self.sentences)]
        shares = scores * both[0] / both[1].clamp(min=1)[:, self.document]
        sides = shares.new_zeros(3, self.sentences.shape[1]).index_add(1, self.document, shares)
        return sides[2:].expand(3, -1) if one_sided else sides


def match_documents(units: TokenVectors, items: TokenItems, pairs: Pairs, chunk: slice) -> MatchedDocuments:
    """Match the sentences of each pair of documents in a chunk of `split_documents`, by their units."""
    device = units.lengths.device
    weighted = units.vectors if units.weights is None else units.vectors * units.weights[:, None]
    owner = torch.repeat_interleave(units.lengths)
    sums = weighted.new_zeros(len(units.lengths), weighted.shape[1]).index_add(0, owner, weighted)
    pooled = sums.cpu().numpy()  # (I, D)
    place = slice(*np.searchsorted(pairs.starts, [chunk.start, chunk.stop]).tolist())
    hypotheses, references = list[np.ndarray](), list[np.ndarray]()  # the items in each side of every link
    document, sentences = list[int](), np.zeros((2, place.stop - place.start))
    counts = np.zeros(place.stop - place.start, SENTENCE_COUNTS)
    for d, (start, count) in enumerate(zip(pairs.starts[place].tolist(), pairs.counts[place].tolist(), strict=True)):
        rows = slice(start - chunk.start, start - chunk.start + count)
        # Text 0 is padding.
        n, m = (int(np.count_nonzero(side[start : start + count])) for side in (pairs.hyp, pairs.ref))
        n, m = (n, m) if n or m else (1, 1)  # two empty documents match each other
        hyp, ref = items.hyp[rows][:n], items.ref[rows][:m]
        links = match_sentences(pooled[hyp], pooled[ref]) if n and m else []
        own_hypotheses = [hyp[link.hypothesis] for link in links]
        own_references = [ref[link.reference] for link in links]
        hypotheses += own_hypotheses
        references += own_references
        document += [d] * len(links)
        sentences[:, d] = n, m
        counts[d] = len(links), n - sum(map(len, own_hypotheses)), m - sum(map(len, own_references))
    sides = hypotheses + references
    parts = np.concatenate([np.zeros(0, dtype=np.int64), *sides])  # the items of all sides
    linked = np.array([len(side) for side in sides], dtype=np.int64)
    at = torch.from_numpy(parts).to(device)
    positions = span_indices((torch.cumsum(units.lengths, 0) - units.lengths)[at], units.lengths[at])
    owners = torch.from_numpy(np.repeat(np.arange(len(sides)), linked)).to(device)
    lengths = units.lengths.new_zeros(len(sides)).index_add(0, owners, units.lengths[at])
    weights = None if units.weights is None else units.weights[positions]
    vectors = units.vectors.index_select(0, positions)
    number = np.arange(len(document))
    matched = items._replace(row=items.row[parts[np.cumsum(linked) - linked]], hyp=number, ref=number + len(document))
    return MatchedDocuments(
        units=TokenVectors(vectors, lengths, weights=weights, rounding=units.rounding[positions]),
        items=matched,
        place=place,
        document=torch.tensor(document, dtype=torch.int64, device=device),
        linked=torch.from_numpy(linked.reshape(2, len(document)).astype(float)).to(device),
        sentences=torch.from_numpy(sentences).to(device),
        counts=counts,
    )
