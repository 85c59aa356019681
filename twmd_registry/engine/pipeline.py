"""encode -> center -> align -> assemble. The only file that knows the order of the stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from functools import cache, cached_property, partial
from itertools import islice
from threading import Event
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from twmd_registry.align import ALIGNERS, SYMMETRIC, align, plans, similarities
from twmd_registry.align.exact import TRANSFORMS
from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.encode.disk import DiskCache
from twmd_registry.encode.encoder import Encoder
from twmd_registry.encode.idf import DocumentFrequencies, count_documents
from twmd_registry.encode.store import PersistentCaches, ReadingMode, TextStore
from twmd_registry.engine.centering import GroupSums
from twmd_registry.engine.chunking import Pairs, centering_step, chunks_of_texts, estimate_tokens, plan_chunks
from twmd_registry.engine.reduction import SelfScores, combine_sides, empty_score
from twmd_registry.engine.result import PairScores
from twmd_registry.engine.token_selection import (
    FittedParts,
    SelectedTokens,
    TokenItems,
    TokenView,
    compared,
    make_items,
    make_view,
    places_of,
    select,
    sum_items,
    token_vectors,
)
from twmd_registry.models.arithmetic import keep_exact
from twmd_registry.progress import Progress
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import (
    CONVERGED,
    Centering,
    Distance,
    Idf,
    MetricName,
    Objective,
    Output,
    Transform,
    Unknown,
)
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.tensors import EPSILON, NOTHING, PRF, EncodedTexts, PaddedTokens, Sides, TokenVectors, pad
from twmd_registry.text_flags import TextFlags

Found = TypeVar("Found")


def prefetch(items: Iterator[Found], over: Event) -> Iterator[Found]:
    """Give the items of an iterator, the next of which is made in a thread meanwhile; without gradients.

    Args:
        items: What is given.
        over: Set when nobody wants more, so that `items` need not finish what it is at.
    """
    inference, context = torch.is_inference_mode_enabled(), copy_context()  # held warnings are found by the context
    queue = torch.cuda.current_stream() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]

    def step() -> list[Found]:
        # A thread has modes of its own (no inference mode means gradients), and a queue of work of its own that nobody
        # here would wait for.
        with torch.inference_mode(inference), torch.no_grad(), torch.cuda.stream(queue) if queue else nullcontext():
            return list(islice(items, 1))

    with ThreadPoolExecutor(1) as pool:
        try:
            coming = pool.submit(context.run, step)
            while found := coming.result():
                coming = pool.submit(context.run, step)
                yield found[0]
        finally:
            over.set()


BLOCK_CELLS = 1_000_000
"""Cells of S (pairs x hypothesis tokens x reference tokens) that are aligned at once."""
BLOCK_NUMBERS = 8_000_000
"""Numbers in the padded vectors of a block."""


def make_alignment_settings(spec: MetricSpec) -> AlignmentSettings:
    """What an aligner needs to know of a specification; defaults for what the metric does not use."""
    return AlignmentSettings(
        temperature=spec.temperature or 1.0,
        iterations=None if spec.iterations == CONVERGED else int(spec.iterations or 1),
        objective=Objective(spec.objective or Objective.EXPECTED),
        distance=Distance(spec.distance or Distance.SIMILARITY),
        transform=Transform(spec.transform or Transform.LINEAR),
    )


def counts_of(tokens: TokenVectors) -> np.ndarray:
    """Tokens of every item to compare; none where not one of them counts; shape (I,)."""
    return torch.where(tokens.carrying_lengths > 0, tokens.lengths, 0).cpu().numpy()


def align_pairs(
    tokens: TokenVectors, items: TokenItems, bare: np.ndarray, specs: Sequence[MetricSpec]
) -> tuple[list[PRF], np.ndarray]:
    """Align all pairs of some items by every specification.

    A pair in which a text never had a token (`bare`) scores as empty texts do. A text of which nothing is left, or
    whose
    C(X, X) is not positive, scores 1 against itself and 0 against any other: nothing is known of it.

    Args:
        tokens: What is compared of every item.
        items: The items, and the pairs of them; P pairs.
        bare: Items that never had a token; shape (I,), bool.
        specs: Specifications of one view.

    Returns:
        Per specification the sides of every pair, each of shape (P,); and the items of which nothing is left, shape
        (I,), bool.
    """
    counts = counts_of(tokens)
    n, m = counts[items.hyp], counts[items.ref]
    tokenless = np.flatnonzero((n == 0) | (m == 0))
    fixed = tokens.vectors.new_tensor(_score_tokenless(items, tokenless, bare))
    parts = [[PRF(fixed, fixed, fixed)] for _ in specs]
    places = [tokenless]
    selves = _self_scores(tokens, counts, specs)
    for block in _blocks(np.flatnonzero((n > 0) & (m > 0)), n, m, tokens.vectors.shape[1]):
        places.append(block)
        hyp, ref = (torch.from_numpy(side[block]).to(tokens.lengths.device) for side in (items.hyp, items.ref))
        x, y = pad(tokens, hyp), pad(tokens, ref)
        same = torch.from_numpy(items.row[items.hyp[block]] == items.row[items.ref[block]]).to(hyp.device)  # (B,)
        found = _align_block(x, y, specs)
        for sides, own, part in zip(found, selves, parts, strict=True):
            part.append(combine_sides(sides, None if own is None else SelfScores(own[hyp], own[ref], same)))
    back = torch.from_numpy(np.argsort(np.concatenate(places))).to(tokens.lengths.device)  # (P,)
    nothing = np.logical_or.reduce([counts == 0, *((own <= 0).cpu().numpy() for own in selves if own is not None)])
    return [PRF(*(torch.cat(side)[back] for side in zip(*part, strict=True))) for part in parts], nothing


def _align_block(x: PaddedTokens, y: PaddedTokens, specs: Sequence[MetricSpec]) -> Iterator[Sides]:
    """The sides of B pairs for every specification; a plan is sought once, whatever its cost is turned into."""
    keep_exact()
    s = similarities(x, y)  # (B, N, M)
    planned: dict[tuple[MetricName, AlignmentSettings], Sides] = {}
    for spec in specs:
        how = make_alignment_settings(spec)
        plan = spec.metric, how._replace(transform=Transform.LINEAR)
        if plan not in planned:
            exact_s = similarities(x, y, how.distance) if how.distance is Distance.EUCLIDEAN else s
            planned[plan] = align(plan[0], exact_s, x, y, plan[1])
        yield Sides(*map(TRANSFORMS[how.transform], planned[plan]))


def _score_tokenless(items: TokenItems, pairs: np.ndarray, bare: np.ndarray) -> list[float]:
    """The scores of pairs in which a text has no token to compare."""
    hyp, ref = items.hyp[pairs], items.ref[pairs]
    same = items.row[hyp] == items.row[ref]
    sides = zip(bare[hyp], bare[ref], same, strict=True)
    return [empty_score(before, after) if before or after else float(alike) for before, after, alike in sides]


def _self_scores(tokens: TokenVectors, counts: np.ndarray, specs: Sequence[MetricSpec]) -> list[Tensor | None]:
    """C(X, X) of every item for every specification that divides by it; shape (I,).

    0 for an item without tokens, and where C(X, X) is nothing but rounding errors: of S, and of vectors that cancel in
    a mean.
    """
    wanted = [CATALOGUE[spec.metric].self_normalised and bool(spec.normalize) for spec in specs]
    own = [tokens.vectors.new_zeros(len(counts)) if want else None for want in wanted]
    if not any(wanted):
        return own
    errors = tokens.rounding_errors.new_zeros(len(counts)).scatter_reduce(
        0, tokens.owners, tokens.rounding_errors, "amax"
    )  # (I,)
    for block in _blocks(np.flatnonzero(counts), counts, counts, tokens.vectors.shape[1]):
        item = torch.from_numpy(block).to(tokens.lengths.device)
        x = pad(tokens, item)
        s = similarities(x, x)  # (B, N, N)
        largest = torch.where(x.mask, s.detach().diagonal(dim1=1, dim2=2), 0.0).amax(1)  # (B,)
        noise = NOTHING * EPSILON * largest + (NOTHING * errors[item]).square()  # (B,)
        for spec, values in zip(specs, own, strict=True):
            if values is not None:
                c = ALIGNERS[spec.metric](s, x, x, make_alignment_settings(spec))  # (B,)
                values[item] = torch.where(c.abs() <= noise, 0.0, c)  # NaN stays NaN
    return own


def _blocks(chosen: np.ndarray, n: np.ndarray, m: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """Group pairs of like sizes (n, m) into blocks of bounded memory."""
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


CHUNK_TOKENS = 65_536
"""Tokens of different texts that are encoded at once (100 MB per layer at 384 dimensions); two pieces are in
memory, one being aligned.
"""
ACCELERATOR_CHUNKS = 4
"""Times as many on an accelerator, whose batches are larger: of fewer texts, too few are alike, and a fifth of a
batch is padding.
"""


ENCODED = 10
"""Units of progress for a text: about as many pairs are aligned by one job while it is encoded (MiniLM, a CPU)."""
AllReduce = Callable[[Callable[[], Tensor]], Tensor]
"""Adds up a tensor over the shares of a corpus that several processes score: what depends on all texts must see all of them.

It is given a function that finds the share of this process, which costs a look at all its texts, and which a total that is known needs not."""


def alone(mine: Callable[[], Tensor]) -> Tensor:
    """The total of a process that scores everything."""
    return mine()


class Job(NamedTuple):
    """One specification to score by.

    Attributes:
        spec: The specification.
        fitted: What was fitted beforehand: mean vectors, stop words, weights of ``idf=background``.
    """

    spec: MetricSpec
    fitted: FittedParts = FittedParts()


class EncodedChunk(NamedTuple):
    """A piece with its texts encoded.

    Attributes:
        piece: Which pairs.
        encoded: What the store holds.
        ids: The texts of the piece; shape (texts of the piece,).
        rows: Each one's row in what the store holds; likewise.
    """

    piece: slice
    encoded: EncodedTexts
    ids: np.ndarray
    rows: np.ndarray


class AlignedChunk(NamedTuple):
    """A piece, aligned by all specifications of one view.

    Attributes:
        fetched: The piece.
        jobs: Whose sides these are, by number.
        sides: One per job; each of shape (pairs of the piece,).
        vanished: The texts, by row, of which nothing is left to compare.
        selected: The tokens that took part.
        items: The piece's items.
    """

    fetched: EncodedChunk
    jobs: list[int]
    sides: list[PRF]
    vanished: np.ndarray
    selected: SelectedTokens
    items: TokenItems


class PairPlan(NamedTuple):
    """How one pair was aligned; N hypothesis tokens (or n-grams), M reference tokens.

    Attributes:
        hypothesis: The hypothesis's tokens, as they read.
        reference: The reference's tokens.
        hypothesis_shares: How much each counts; shape (N,).
        reference_shares: How much each counts; shape (M,).
        similarities: S; shape (N, M).
        plans: Of both sides; each of shape (N, M).
    """

    hypothesis: list[str]
    reference: list[str]
    hypothesis_shares: np.ndarray
    reference_shares: np.ndarray
    similarities: np.ndarray
    plans: Sides


class PipelineRun:
    """One call: some pairs, and the specifications that share an encoder, its dtype and its length limit.

    Every text is encoded once for all of them; memory does not grow with the number of pairs.
    """

    def __init__(
        self,
        encoder: Encoder,
        jobs: Sequence[Job],
        pairs: Pairs,
        reading: ReadingMode,
        *,
        batch_tokens: int | None = None,
        keep: int = 0,
        disk: int = 0,
        total: AllReduce = alone,
        progress: Progress | None = None,
    ) -> None:
        """Plan the work; nothing is encoded yet.

        Args:
            encoder: The encoder of all jobs.
            jobs: What to compute.
            pairs: The pairs.
            reading: How long texts are read.
            batch_tokens: Most padded tokens in the encoder at once.
            keep: Most bytes of encoded references to keep in main memory for later calls.
            disk: Most bytes of encoded texts to keep in files for other processes.
            total: Adds up what depends on the whole corpus, where these pairs are a share of it.
            progress: Called with `ENCODED` for every text that was encoded, from another thread where pieces are
                encoded ahead, and with 1 for
                every pair that a job has aligned.
        """
        self._encoder, self._pairs, self._reading = encoder, pairs, reading
        asked = [_aligned_as(job.spec) for job in jobs]
        place = {spec: j for j, spec in enumerate(dict.fromkeys(asked))}
        self._place = [place[spec] for spec in asked]
        self._jobs = list(dict(zip(asked, jobs, strict=True)).values())
        self._batch_tokens, self._progress, self._total, self._over = batch_tokens, progress, total, Event()
        self._views: dict[TokenView, list[int]] = {}
        for j, job in enumerate(self._jobs):
            self._views.setdefault(make_view(job.spec), []).append(j)
        self._fitted = {view: self._fit(view, self._jobs[members[0]].fitted) for view, members in self._views.items()}
        step = centering_step(job.spec for job in jobs)
        layers = sorted({k for view in self._views for k in view.layers})
        self._most_tokens = CHUNK_TOKENS * (1 if encoder.device.type == "cpu" else ACCELERATOR_CHUNKS) // len(layers)
        limit = None if reading.window else reading.limit
        self._pieces = plan_chunks(pairs, estimate_tokens(pairs.texts, limit), self._most_tokens, step)
        lasting = _lasting(encoder, pairs, keep, disk)
        self._store = TextStore(
            encoder, pairs.texts, layers, reading, chunks_of_texts(pairs, self._pieces), lasting=lasting
        )

    def align(self) -> Iterator[AlignedChunk]:
        """Align all pairs, piece by piece; differentiable in the weights of the encoder.

        Yields:
            Of every piece, what each view of it gave.
        """
        sums = (
            self._sums
        )  # before anything else, and without a pair, too: other processes wait for this one's share of them
        for fetched in self._fetch_ahead():
            bare = (fetched.encoded.lengths == 0).cpu().numpy()
            for view, members in self._views.items():
                items, selected = self._select(view, fetched)
                tokens = compared(
                    view, token_vectors(view, selected, items, sums.get(view), self._fitted[view]), selected.weightless
                )
                sides, nothing = align_pairs(tokens, items, bare[items.row], [self._jobs[j].spec for j in members])
                vanished = items.row[nothing & ~bare[items.row]]
                if self._progress is not None:
                    self._progress(len(items.hyp) * len(members))
                yield AlignedChunk(fetched, members, sides, vanished, selected, items)

    def score(self) -> tuple[list[PairScores], TextFlags]:
        """Score all pairs.

        Returns:
            Per job the scores of every pair, and what to know of the texts.
        """
        found = [_blank(job, len(self._pairs.hyp)) for job in self._jobs]
        flags = TextFlags.none(len(self._pairs.texts))
        for one in self.align():
            for j, prf in zip(one.jobs, one.sides, strict=True):
                for scores, values in zip(found[j], prf, strict=True):
                    if scores is not None:
                        scores[one.fetched.piece] = values.to("cpu", torch.float64).numpy()
            flags.vanished[_texts_of_rows(one.fetched, one.vanished)] = True
            flags.wordless[_texts_of_rows(one.fetched, one.selected.wordless)] = True
            if one.selected.weightless is not None:
                flags.weightless[_texts_of_rows(one.fetched, one.items.row[one.selected.weightless.cpu().numpy()])] = (
                    True
                )
        store = self._store
        scored = [found[j] for j in self._place]
        return scored, flags._replace(
            empty=store.empty, truncated=store.truncated, unknown=store.unknown, missing=store.missing
        )

    def sum_up(self) -> None:
        """Give `total` this share of what depends on the whole corpus, in the order in which scoring asks for it, and
        score nothing.

        The sums of token vectors do not depend on the weights of tokens: it does not matter that those are of this
            share alone.
        """
        _ = self._sums

    def explain(self, pair: int) -> PairPlan:
        """How a pair is aligned by the only job; with its whole centering batch (or corpus), as when it was scored."""
        ((view, (job,)),) = self._views.items()
        around = self._pairs.segment[pair] // view.size if view.centering is Centering.BATCH else None
        batch = np.flatnonzero(self._pairs.segment // view.size == around) if around is not None else np.array([pair])
        (fetched,) = self._fetch([slice(int(batch[0]), int(batch[-1]) + 1)])
        items, selected = self._select(view, fetched)
        tokens = token_vectors(view, selected, items, self._sums.get(view), self._fitted[view])
        units = compared(view, tokens, selected.weightless)
        which = [int(side[pair - fetched.piece.start]) for side in (items.hyp, items.ref)]
        texts = [
            [self._decode_tokens(fetched.encoded, places) for places in places_of(view, tokens, units, item)]
            for item in which
        ]
        if not all(counts_of(units)[which]):
            shares = [np.zeros(len(side)) for side in texts]
            nothing = torch.zeros(len(texts[0]), len(texts[1]), dtype=torch.float32)
            return PairPlan(texts[0], texts[1], shares[0], shares[1], nothing.numpy(), Sides(nothing, nothing))
        x, y = (pad(units, torch.tensor([item], device=units.lengths.device)) for item in which)
        how = make_alignment_settings(self._jobs[job].spec)
        s = similarities(x, y, how.distance)
        found = plans(self._jobs[job].spec.metric, s, x, y, how)
        shares = [side.shares[0].cpu().numpy() for side in (x, y)]
        return PairPlan(
            texts[0], texts[1], shares[0], shares[1], s[0].cpu().numpy(), Sides(*(plan[0].cpu() for plan in found))
        )

    def _decode_tokens(self, encoded: EncodedTexts, places: Tensor) -> str:
        return " ".join(self._encoder.decode_tokens(encoded.ids[places].tolist()))

    def _fetch_ahead(self) -> Iterator[EncodedChunk]:
        """All pieces; unless gradients are wanted, the next one is encoded while one is aligned: plans are solved
        beside an accelerator's work.
        """
        self._over.clear()
        fetching = self._fetch(self._pieces)
        return fetching if torch.is_grad_enabled() or len(self._pieces) == 1 else prefetch(fetching, self._over)

    def _tell(self, texts: int) -> None:
        """Report that so many more texts are encoded, unless nobody wants them."""
        if self._over.is_set():
            raise CancelledError
        if self._progress is not None:
            self._progress(texts * ENCODED)

    def _fetch(self, pieces: Sequence[slice]) -> Iterator[EncodedChunk]:
        for p, piece in enumerate(pieces):
            ids = np.union1d(self._pairs.hyp[piece], self._pairs.ref[piece])
            encoded, rows = self._store.fetch(ids, batch_tokens=self._batch_tokens, progress=self._tell)
            yield EncodedChunk(piece, encoded, ids, rows)
            if len(pieces) > 1:
                self._store.forget(p, self._most_tokens)

    def _select(self, view: TokenView, fetched: EncodedChunk) -> tuple[TokenItems, SelectedTokens]:
        items = make_items(view, self._pairs, fetched.piece, fetched.ids, fetched.rows)
        pieces = self._encoder.pieces if view.needs_vocabulary else None
        return items, select(view, fetched.encoded, items, pieces, self._fitted[view])

    @cached_property
    def _sums(self) -> dict[TokenView, list[GroupSums]]:
        """The sums of every centering over the whole corpus."""
        found: dict[TokenView, list[GroupSums]] = {}
        for view in self._views:
            if view.centering is Centering.CORPUS:
                found[view] = [
                    GroupSums(
                        *(
                            self._total(partial(self._local_sum, view, k, i)).to(self._encoder.device)
                            for i in range(len(GroupSums._fields))
                        )
                    )
                    for k in range(len(view.layers))
                ]
        return found

    def _local_sum(self, view: TokenView, layer: int, which: int) -> Tensor:
        return self._local_sums[view][layer][which]

    @cached_property
    def _local_sums(self) -> dict[TokenView, list[GroupSums]]:
        """The sums over these pairs: a pass of their own before anything is scored."""
        views = [view for view in self._views if view.centering is Centering.CORPUS]
        nothing = {
            view: GroupSums.nothing(view.groups_per_batch, self._encoder.width, self._encoder.device) for view in views
        }
        sums = {view: [nothing[view] for _ in view.layers] for view in views}
        for fetched in self._fetch(self._pieces):
            for view in views:
                items, selected = self._select(view, fetched)
                here = [sum_items(tokens, items) for tokens in selected.layers]
                sums[view] = [one.plus(other) for one, other in zip(sums[view], here, strict=True)]
        return sums

    def _fit(self, view: TokenView, fitted: FittedParts) -> FittedParts:
        """What a view needs, with the weights that these very texts give to tokens."""
        if view.idf not in {Idf.CORPUS, Idf.REFERENCES}:
            return fitted
        unseen = self._encoder.tokenizer.unk_token_id if view.unknown is Unknown.APART else None
        sides = (self._of_hypotheses if view.idf == Idf.CORPUS else self._of_references, self._of_references)
        hyp, ref = (torch.from_numpy(side.unseen(unseen).weights) for side in sides)
        return fitted._replace(weights=(hyp, ref))

    @cached_property
    def _of_hypotheses(self) -> DocumentFrequencies:
        return self._frequencies(self._pairs.hyp[self._pairs.starts])

    @cached_property
    def _of_references(self) -> DocumentFrequencies:
        return self._frequencies(self._pairs.ref)

    def _frequencies(self, texts: np.ndarray) -> DocumentFrequencies:
        """Over texts by their numbers, each as often as it occurs."""

        @cache
        def own() -> DocumentFrequencies:
            different, times = np.unique(texts, return_counts=True)
            return count_documents(self._encoder, [self._pairs.texts[i] for i in different], times, self._reading)

        documents = self._total(lambda: torch.tensor([own().documents]))
        return DocumentFrequencies(int(documents), self._total(lambda: torch.from_numpy(own().counts)).numpy())


def _lasting(encoder: Encoder, pairs: Pairs, keep: int, disk: int) -> list[PersistentCaches]:
    """Which texts are kept where. In main memory the references: predictions do not come again, and would push them
    out; in files all.
    """
    lasting = []
    if keep:
        encoder.references.begin(keep)
        texts = np.zeros(len(pairs.texts), dtype=bool)
        texts[pairs.ref] = True
        lasting.append(PersistentCaches(encoder.references, texts))
    if disk:
        lasting.append(PersistentCaches(DiskCache(encoder, disk), np.ones(len(pairs.texts), dtype=bool)))
    return lasting


def _aligned_as(spec: MetricSpec) -> MetricSpec:
    """The same specification for whatever side: all sides of a metric come from one alignment."""
    return spec if spec.output is None else spec.replace(output=Output.F1)


def _blank(job: Job, number: int) -> PairScores:
    precision = np.full(number, np.nan)
    if job.spec.metric in SYMMETRIC:
        return PairScores(precision)
    return PairScores(precision, precision.copy(), precision.copy())


def _texts_of_rows(fetched: EncodedChunk, wanted: np.ndarray) -> np.ndarray:
    """The texts that are held in some rows of the store."""
    return fetched.ids[np.isin(fetched.rows, wanted)]
