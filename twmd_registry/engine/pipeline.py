"""encode -> center -> align -> reduce: the stages in order."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from twmd_registry.align import ALIGNERS, ONE_SIDED, align, combine_sides, plans, similarities
from twmd_registry.align.exact import invert_cost
from twmd_registry.encode.cache import TextCache
from twmd_registry.encode.encoder import Encoder, tokenise
from twmd_registry.encode.idf import count_documents, idf_weights
from twmd_registry.encode.store import TextStore
from twmd_registry.engine.alignment import Alignment
from twmd_registry.engine.pairs import Pairs, plan_chunks
from twmd_registry.engine.sentences import match_documents
from twmd_registry.engine.token_vectors import (
    TokenItems,
    TokenView,
    make_items,
    make_units,
    positions_of,
    select,
    sum_items,
)
from twmd_registry.progress import Progress
from twmd_registry.registry.metric_spec import AppliedSpec
from twmd_registry.registry.signature import Signature
from twmd_registry.registry.values import Idf
from twmd_registry.tensors import EPSILON, ZERO_TOLERANCE, TextFacts, TokenVectors, pad

CHUNK_TOKENS = 65_536
"""Maximum vectors (tokens of distinct texts x layers) to encode per chunk, 100 MB at 384 dimensions. The same number of
tokens is kept for later chunks.
"""
ACCELERATOR_FACTOR = 4
"""Factor by which chunks are larger on an accelerator, so batches have more similar lengths and less padding."""
STEPS_PER_TEXT = 10
"""Progress steps per text; a pair has one. Encoding a text takes as long as aligning 10 pairs (MiniLM, CPU)."""
CorpusSums = dict[str, Tensor]
"""Sums over a corpus, by name. Sums of its parts can be added."""


class ChunkScores(NamedTuple):
    """The scores of a chunk's P pairs with the specifications of a view."""

    place: slice  # The pairs (of documents)
    sides: dict[AppliedSpec, Tensor]  # Precision, recall and F1, equal for a one-sided metric; shape (3, P)
    sentences: np.ndarray | None  # `SENTENCE_COUNTS` of pairs of documents; shape (P,)


class PipelineRun:
    """Scores pairs with all specifications that share an encoder and a length limit.

    Each distinct text is encoded once for all of them if recurring texts fit into memory. Corpus centering needs an
    additional pass. Memory for vectors is bounded; memory for texts, indices and scores is not.

    Attributes:
        facts: Facts about the texts; complete after the last chunk.
    """

    def __init__(
        self,
        encoder: Encoder,
        views: Mapping[AppliedSpec, TokenView],
        pairs: Pairs,
        *,
        documents: bool = False,
        batch_tokens: int | None = None,
        keep: int = 0,
        sums: CorpusSums | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Plan the work, and count document frequencies (idf=corpus, references). Nothing is encoded.

        Args:
            encoder: The model.
            views: Specifications with the same limit and stride, with fitted values.
            pairs: The pairs to score.
            documents: Whether the pairs are sentences (`split_documents`) of documents to score.
            batch_tokens: As for `Encoder.encode`.
            keep: Maximum bytes of encoded references to keep in main memory.
            sums: The result of `sum_corpus` for the corpus; None if the pairs are the corpus.
            progress: Called with `STEPS_PER_TEXT` for every encoded text, and with 1 for every pair aligned with a
                specification.
        """
        self._encoder, self._pairs, self._documents = encoder, pairs, documents
        self._progress, self._sums = progress, dict(sums or {})
        self._spec = next(iter(views))  # all have the same limit and stride
        self._views: dict[TokenView, list[AppliedSpec]] = {}
        for spec, view in views.items():
            self._views.setdefault(view, []).append(spec)
        self._views = {
            self._fit_idf(view) if view.idf is not None and view.idf.is_counted else view: specs
            for view, specs in self._views.items()
        }
        self._corpus_centered = [view for view in self._views if view.centering.kind == "corpus"]
        layers = sorted({k for view in self._views for k in view.layers})
        max_tokens = CHUNK_TOKENS * (1 if encoder.device.type == "cpu" else ACCELERATOR_FACTOR) // len(layers)
        step = math.lcm(*(spec.centering.size or 1 for spec in views))
        self._chunks, uses = plan_chunks(pairs, self._spec.truncation.cut, max_tokens, step)
        self.facts = TextFacts.of_unread(len(pairs.texts))
        self._padded = {size: self._pad_batches(size) for size in {spec.padding for spec in views} if size}
        if keep:
            if encoder.reference_cache is None:
                encoder.reference_cache = TextCache()
            encoder.reference_cache.begin(keep)
        self._store = TextStore(
            encoder,
            pairs.texts,
            (pairs.hyp, pairs.ref),
            layers,
            uses,
            limit=self._spec.truncation.limit,
            stride=self._spec.truncation.stride,
            facts=self.facts,
            cache=encoder.reference_cache if keep else None,
            # Predictions do not recur, and would evict references.
            cacheable=np.isin(np.arange(len(pairs.texts)), pairs.ref),
            batch_tokens=batch_tokens,
            progress=progress and (lambda texts: progress(texts * STEPS_PER_TEXT)),
            max_tokens=max_tokens if len(self._chunks) > 1 else None,
        )

    def score_chunks(self) -> Generator[ChunkScores]:
        """Encode, center, align and reduce all pairs, chunk by chunk, differentiably in the encoder's weights. Yields
        the scores of each chunk and view.
        """
        sums = self._vector_sums()
        *_, last = self._views  # the last view to read encoded vectors
        for number, chunk in enumerate(self._chunks):
            # 1. Encode the distinct texts of the chunk, once for all specifications.
            encoded, texts = self._store.fetch(chunk, number)
            empty_rows = (encoded.lengths == 0).cpu().numpy()
            for view, specs in self._views.items():
                # 2. Center: select the tokens to compare, subtract a mean, scale, and form n-grams.
                items = make_items(view, self._pairs, chunk, texts)
                selection = select(view, encoded, items, self._encoder)
                if view is last:  # the selection has copies, so the encoded vectors can be freed
                    encoded = encoded._replace(layers={})
                _, units = make_units(view, encoded, selection, items, sums.get(view))
                selection = selection._replace(layers=[])  # frees them
                # 3. Align the units of every pair, and 4. reduce both sides to scores (of documents, over their
                # sentences).
                aligned, place, documents = items, chunk, None
                if self._documents:
                    documents = match_documents(units, items, self._pairs, chunk)
                    units, aligned, place = documents.units, documents.items, documents.place
                padded = {size: of_pairs[:, chunk] for size, of_pairs in self._padded.items()}
                sides, vanished = align_and_reduce(units, aligned, empty_rows[aligned.row], specs, padded)
                if documents is not None:
                    by_spec = zip(sides, specs, strict=True)
                    sides = [documents.average(c, one_sided=spec.metric in ONE_SIDED) for c, spec in by_spec]
                # Report progress and facts about the texts, for counts and warnings.
                flags = self.facts.flags
                flags["vanished"][texts[aligned.row[vanished & ~empty_rows[aligned.row]]]] = True
                flags["wordless"][texts[selection.wordless]] = True
                if selection.weightless is not None:
                    flags["weightless"][texts[items.row[selection.weightless.cpu().numpy()]]] = True
                if self._progress is not None:
                    self._progress(len(items.hyp) * len(specs))
                yield ChunkScores(place, dict(zip(specs, sides, strict=True)), documents and documents.counts)

    def explain(self, pair: int, score: float, signature: Signature) -> Alignment:
        """Align a pair again with the only specification, centered with the same batch or corpus as its `score`."""
        ((view, (spec,)),) = self._views.items()
        chosen = np.array([pair])
        if view.centering.kind == "batch":
            batch = self._pairs.segment // cast("int", view.centering.size)
            chosen = np.flatnonzero(batch == batch[pair])
        chunk = slice(int(chosen[0]), int(chosen[-1]) + 1)
        encoded, texts = self._store.fetch(chunk)
        items = make_items(view, self._pairs, chunk, texts)
        selection = select(view, encoded, items, self._encoder)
        tokens, units = make_units(view, encoded, selection, items, self._vector_sums().get(view))
        hypothesis, reference = (int(side[pair - chunk.start]) for side in (items.hyp, items.ref))
        x, y = (pad(units, torch.tensor([item], device=units.lengths.device)) for item in (hypothesis, reference))
        if spec.padding:
            of_pair = self._padded[spec.padding][:, pair].tolist()
            x, y = (side._replace(padded=torch.tensor([own])) for side, own in zip((x, y), of_pair, strict=True))
        if x.weights.any() and y.weights.any():
            s = similarities(x, y, spec.distance)
            shares, both = (x.shares, y.shares), plans(s, x, y, spec)
        else:  # one of the texts has no token to compare
            s = x.weights.new_zeros(1, *(int(units.lengths[item]) for item in (hypothesis, reference)))
            shares, both = (s.sum(2), s.sum(1)), (s, s)
        places = [positions_of(view, tokens, units, item) for item in (hypothesis, reference)]
        decode = self._encoder.decode_tokens
        read = [tuple(" ".join(decode(encoded.ids[unit].tolist())) for unit in of_text) for of_text in places]
        names = ("precision", "recall") if spec.output else ("score",)
        return Alignment(
            signature=signature,
            score=score,
            hypothesis=read[0],
            reference=read[1],
            hypothesis_shares=shares[0][0].cpu().numpy(),
            reference_shares=shares[1][0].cpu().numpy(),
            similarities=s[0].cpu().numpy(),
            plans={name: plan[0].cpu().numpy() for name, plan in zip(names, both, strict=False)},
        )

    def sum_corpus(self) -> CorpusSums:
        """Return these pairs' part of the corpus sums: document frequencies by side (idf=corpus, references), and sums
        of token vectors (centering=corpus), for which all texts are encoded.
        """
        self._vector_sums()
        return self._sums

    def _vector_sums(self) -> dict[TokenView, Tensor]:
        """Return `sum_groups` of the corpus in each layer, for each view with corpus centering; shape (L, G, D + 1)."""
        names = {view: f"vectors {number}" for number, view in enumerate(self._corpus_centered)}
        if not self._sums.keys() >= {*names.values()}:
            sums = dict[TokenView, Tensor]()
            for number, chunk in enumerate(self._chunks):
                encoded, texts = self._store.fetch(chunk, number)
                for view in names:
                    items = make_items(view, self._pairs, chunk, texts)
                    layers = select(view, encoded, items, self._encoder).layers
                    here = torch.stack([sum_items(tokens, items) for tokens in layers])
                    sums[view] = sums[view] + here if view in sums else here
            self._sums |= {names[view]: total for view, total in sums.items()}
        return {view: self._sums[name].to(self._encoder.device) for view, name in names.items()}

    def _fit_idf(self, view: TokenView) -> TokenView:
        """Return a view with the idf weights of the corpus."""
        unseen = self._encoder.tokenizer.unk_token_id if view.unknown == "apart" else None
        references = torch.from_numpy(idf_weights(self._frequencies("references"), unseen))
        hypotheses = references
        if view.idf == Idf("corpus"):
            hypotheses = torch.from_numpy(idf_weights(self._frequencies("hypotheses"), unseen))
        return replace(view, weights=(hypotheses, references))

    def _frequencies(self, side: str) -> np.ndarray:
        """Return the document frequencies of all hypotheses or all references, repeated ones included."""
        if side not in self._sums:
            pairs = self._pairs
            numbers = pairs.ref if side == "references" else pairs.hyp[pairs.starts]
            distinct, times = np.unique(numbers, return_counts=True)
            texts = [pairs.texts[i] for i in distinct]
            self._sums[side] = torch.from_numpy(count_documents(self._encoder, texts, times, self._spec))
        return self._sums[side].numpy()

    def _pad_batches(self, size: int | str) -> np.ndarray:
        """Return whether the prediction and the reference of every pair are shorter than the longest in their batch of
        `size` pairs; shape (2, pairs), bool.
        """
        tokens = tokenise(self._encoder.tokenizer, self._pairs.texts, self._spec.truncation.cut)
        numbers = np.array([len(text.ids) for text in tokens])
        starts = np.arange(0, len(self._pairs.hyp), int(size))
        sides = [numbers[self._pairs.hyp], numbers[self._pairs.ref]]
        longest = [np.repeat(np.maximum.reduceat(side, starts), int(size))[: len(side)] for side in sides]
        return np.stack([side < longest_length for side, longest_length in zip(sides, longest, strict=True)])


BLOCK_CELLS = 1_000_000
"""Maximum cells of S (pairs x hypothesis tokens x reference tokens) per block."""
BLOCK_NUMBERS = 8_000_000
"""Maximum numbers in the padded vectors of a block."""


def align_and_reduce(
    units: TokenVectors,
    items: TokenItems,
    empty: np.ndarray,
    specs: Sequence[AppliedSpec],
    padded: Mapping[int | str, np.ndarray] | None = None,
) -> tuple[list[Tensor], np.ndarray]:
    """Align P pairs of items with every specification of a view, and reduce the sides of each pair to scores. Returns,
    by specification, precision, recall and F1 of every pair, shape (3, P); and the items with nothing to compare, shape
    (I,), bool. A pair with an item that never had a token (`empty`, shape (I,), bool) scores 1 if neither item had one,
    otherwise 0. A text without units to compare, or whose C(X, X) is not positive with `normalize`, scores 1 against
    itself and 0 against any other text. Equal pairs, and pairs with exchanged texts, are aligned once. `padded` has, by
    the value of `padding`, which texts are padded; shape (2, P), bool.
    """
    padded = padded or {}
    low, high = np.sort([items.hyp, items.ref], axis=0)
    # Encode a pair of items as one number.
    numbers = low * len(items.row) + high
    for flags in padded.values():  # once for each way to pad them
        lower, higher = np.where(items.hyp > items.ref, flags[::-1], flags)
        numbers = numbers * 4 + 2 * lower + higher
    _, first, pair = np.unique(numbers, return_index=True, return_inverse=True)
    if len(first) < len(pair):
        once = items._replace(hyp=items.hyp[first], ref=items.ref[first])
        padded_once = {size: flags[:, first] for size, flags in padded.items()}
        scores_once, vanished = align_and_reduce(units, once, empty, specs, padded_once)
        exchanged = torch.from_numpy(once.hyp[pair] != items.hyp).to(units.lengths.device)
        repeated = [c[:, torch.from_numpy(pair).to(c.device)] for c in scores_once]  # (3, P)
        return [torch.where(exchanged, c[[1, 0, 2]], c) for c in repeated], vanished
    device, width = units.lengths.device, units.vectors.shape[1]
    lengths = units.lengths  # (I,); 0 if no unit has a weight
    if units.weights is not None:
        heavy = torch.repeat_interleave(lengths)[units.weights > 0]  # the item of every unit with a weight
        lengths = torch.where(torch.bincount(heavy, minlength=len(lengths)) > 0, lengths, 0)
    counts = lengths.cpu().numpy()
    n, m = counts[items.hyp], counts[items.ref]  # (P,)
    same = items.row[items.hyp] == items.row[items.ref]
    unaligned = np.flatnonzero((n == 0) | (m == 0))
    either_empty, both_empty = (join(empty[items.hyp], empty[items.ref]) for join in (np.logical_or, np.logical_and))
    fixed = units.vectors.new_tensor(np.where(either_empty, both_empty, same)[unaligned])
    blocks, scores = [unaligned], [[fixed.expand(3, -1)] for _ in specs]
    self_scores = _self_scores(units, counts, [spec for spec in specs if spec.normalize])
    for block in _blocks(np.flatnonzero((n > 0) & (m > 0)), n, m, width):
        blocks.append(block)
        hyp, ref, same_here = (torch.from_numpy(side[block]).to(device) for side in (items.hyp, items.ref, same))
        x, y = pad(units, hyp), pad(units, ref)
        s = similarities(x, y)  # (B, N, M)
        for k, spec in enumerate(specs):
            if spec.padding:
                own, other = torch.from_numpy(padded[spec.padding][:, block]).to(device)
                sides = align(s, x._replace(padded=own), y._replace(padded=other), spec)
            else:
                costs = similarities(x, y, spec.distance) if spec.distance == "euclidean" else s
                sides = align(costs, x, y, spec)
            if spec.transform == "inverse":
                sides = invert_cost(sides[0]), invert_cost(sides[1])
            c_self = self_scores.get(spec)
            selves = None if c_self is None else (c_self[hyp], c_self[ref])
            scores[k].append(combine_sides(sides, selves, same_here, plain=spec.special == "partners"))
    back = torch.from_numpy(np.argsort(np.concatenate(blocks))).to(device)  # (P,)
    vanished = np.logical_or.reduce([counts == 0, *((c_self <= 0).cpu().numpy() for c_self in self_scores.values())])
    return [torch.cat(parts, dim=1)[:, back] for parts in scores], vanished


def _self_scores(units: TokenVectors, counts: np.ndarray, specs: Iterable[AppliedSpec]) -> dict[AppliedSpec, Tensor]:
    """Return C(X, X) of every item, shape (I,), for every specification.

    It is 0 for an item without units, or if C(X, X) is only rounding error (of S, or of vectors that cancel).
    """
    by_spec = {spec: units.vectors.new_zeros(len(counts)) for spec in specs}
    if not by_spec:
        return by_spec
    owner = torch.repeat_interleave(units.lengths)  # the item of every unit
    errors = units.rounding.new_zeros(len(counts)).scatter_reduce(0, owner, units.rounding, "amax")  # (I,)
    for block in _blocks(np.flatnonzero(counts), counts, counts, units.vectors.shape[1]):
        item = torch.from_numpy(block).to(units.lengths.device)
        x = pad(units, item)
        s = similarities(x, x)  # (B, N, N)
        largest = torch.where(x.mask, s.detach().diagonal(dim1=1, dim2=2), 0.0).amax(1)  # (B,)
        noise = ZERO_TOLERANCE * EPSILON * largest + (ZERO_TOLERANCE * errors[item]).square()  # (B,)
        for spec, values in by_spec.items():
            c = ALIGNERS[spec.metric](s, x, x, spec)  # (B,)
            values[item] = torch.where(c.abs() <= noise, 0.0, c)  # NaN stays NaN
    return by_spec


def _blocks(chosen: np.ndarray, n: np.ndarray, m: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """Yield blocks of pairs of similar sizes (n, m), each of bounded memory."""
    order = chosen[np.lexsort((m[chosen], n[chosen]))]
    start, longest_n, longest_m = 0, 0, 0
    for stop, (rows, columns) in enumerate(zip(n[order].tolist(), m[order].tolist(), strict=True)):
        longest_n, longest_m, size = max(longest_n, rows), max(longest_m, columns), stop - start + 1
        if size > 1 and (
            size * longest_n * longest_m > BLOCK_CELLS or size * (longest_n + longest_m) * width > BLOCK_NUMBERS
        ):
            yield order[start:stop]
            start, longest_n, longest_m = stop, rows, columns
    if len(order):
        yield order[start:]
