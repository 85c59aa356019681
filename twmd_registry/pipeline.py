"""encode -> center -> align -> assemble. The only file that knows the order of the stages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from twmd_registry.align import SYMMETRIC, align, align_self, similarities
from twmd_registry.align.tempering import Tempering
from twmd_registry.assemble import Selves, combine_sides, empty_score
from twmd_registry.carriers import Encoded, TokenVectors, pad, span_indices
from twmd_registry.center import GroupSums, Means, center, sum_groups
from twmd_registry.encode.background import SPECIAL_LEVEL
from twmd_registry.encode.encoder import Encoder
from twmd_registry.encode.store import Reading, TextStore
from twmd_registry.errors import warn
from twmd_registry.pairs import Pairs, estimate_tokens, plan_pieces, uses_of_texts
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import CONVERGED, Centering, Objective, Side, Special, Vectors
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.scores import PairScores

PIECE_TOKENS = 131_072
"""Tokens of different texts that are in memory at once (200 MB per layer at 384 dimensions)."""
BLOCK_CELLS = 1_000_000
"""Cells of S (pairs x hypothesis tokens x reference tokens) that are aligned at once."""
BLOCK_NUMBERS = 8_000_000
"""Numbers in the padded vectors of a block."""


class Job(NamedTuple):
    """One specification to score by, with the mean vector it subtracts (background centering only)."""

    spec: MetricSpec
    background: Tensor | None = None


class View(NamedTuple):
    """What decides the vectors that metrics compare; metrics that agree on it share all similarities."""

    layer: int
    special: Special
    centering: Centering
    size: int
    side: Side
    vectors: Vectors
    background: str | None

    @property
    def groups_per_batch(self) -> int:
        """How many means a population has."""
        return 2 if self.side is Side.SEPARATE else 1


class Items(NamedTuple):
    """The texts of a piece, each once per group that it is centered with.

    Attributes:
        row: The text's row in what the store holds; shape (I,).
        group: Its centering group; shape (I,).
        weight: How often the text occurs in that group's population; shape (I,).
        groups: Number of groups.
        hyp: The item of every pair's hypothesis; shape (pairs of the piece,).
        ref: The item of every pair's reference; likewise.
    """

    row: np.ndarray
    group: np.ndarray
    weight: np.ndarray
    groups: int
    hyp: np.ndarray
    ref: np.ndarray


class Fetched(NamedTuple):
    """A piece with its texts encoded.

    Attributes:
        piece: Which pairs.
        encoded: What the store holds.
        ids: The texts of the piece; shape (texts of the piece,).
        rows: Each one's row in what the store holds; likewise.
    """

    piece: slice
    encoded: Encoded
    ids: np.ndarray
    rows: np.ndarray


class TextFlags(NamedTuple):
    """Which different texts have no token of their own, which were cut, and which have unknown tokens only."""

    empty: np.ndarray
    truncated: np.ndarray
    unknown: np.ndarray


def score_pairs(
    encoder: Encoder,
    jobs: Sequence[Job],
    pairs: Pairs,
    reading: Reading,
    *,
    batch_tokens: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[list[PairScores], TextFlags]:
    """Score all pairs by several specifications that share an encoder, its dtype and its length limit.

    Every text is encoded once for all of them; memory does not grow with the number of pairs.

    Args:
        encoder: The encoder of all jobs.
        jobs: What to compute.
        pairs: The pairs.
        reading: How long texts are read.
        batch_tokens: Most padded tokens in the encoder at once.
        progress: Called with the number of texts encoded.

    Returns:
        Per job the scores of every pair, and the texts that were empty or cut.
    """
    views: dict[View, list[int]] = {}
    for j, job in enumerate(jobs):
        views.setdefault(view_of(job.spec), []).append(j)
    step = math.lcm(*(view.size for view in views if view.centering is Centering.BATCH))
    layers = sorted({view.layer for view in views})
    most_tokens = PIECE_TOKENS // len(layers)
    pieces = plan_pieces(pairs, estimate_tokens(pairs.texts, None if reading.window else reading.limit), most_tokens, step)
    store = TextStore(encoder, pairs.texts, layers, reading, uses_of_texts(pairs, pieces))
    found = [_blank(job, len(pairs.hyp)) for job in jobs]
    vanished: set[int] = set()

    def fetch() -> Iterator[Fetched]:
        for p, piece in enumerate(pieces):
            ids = np.union1d(pairs.hyp[piece], pairs.ref[piece])
            encoded, rows = store.fetch(ids, batch_tokens=batch_tokens, progress=progress)
            yield Fetched(piece, encoded, ids, rows)
            if len(pieces) > 1:
                store.forget(p, most_tokens)

    sums = _corpus_sums([view for view in views if view.centering is Centering.CORPUS], pairs, fetch)
    for piece, encoded, ids, rows in fetch():
        for view, members in views.items():
            items = _items(view, pairs, piece, ids, rows)
            tokens = _centered(view, encoded, items, sums.get(view), jobs[members[0]].background)
            bare = (encoded.lengths == 0).cpu().numpy()[items.row]
            _fill_tokenless(tokens, items, bare, [found[j] for j in members], piece)
            _score_piece(tokens, items, [jobs[j] for j in members], [found[j] for j in members], piece)
            vanished |= set(_texts_of_rows(ids, rows, items.row[(_tokens_of(tokens) == 0) & ~bare]))
    if vanished:
        warn(f"different texts of which centering leaves nothing: {len(vanished)}; each scores 1 against itself and 0 against any other.")
    return found, TextFlags(store.empty, store.truncated, store.unknown)


def _corpus_sums(views: Sequence[View], pairs: Pairs, fetch: Callable[[], Iterator[Fetched]]) -> dict[View, GroupSums]:
    """The sums of every centering over the whole corpus: a pass of their own before anything is scored."""
    sums: dict[View, GroupSums] = {}
    for piece, encoded, ids, rows in fetch() if views else ():
        for view in views:
            items = _items(view, pairs, piece, ids, rows)
            here = _sum_items(_select(view, encoded, items), items)
            sums[view] = sums[view].plus(here) if view in sums else here
    return sums


def view_of(spec: MetricSpec) -> View:
    """The view of an applied specification; keys that its centering does not use are set to one value."""
    return View(
        layer=spec.layer or 0,
        special=Special(spec.special or Special.NONE),
        centering=spec.centering_kind,
        size=spec.centering_size or 1,
        side=Side(spec.centering_side or Side.JOINT),
        vectors=Vectors(spec.vectors or Vectors.UNIT),
        background=spec.background,
    )


def tempering_of(spec: MetricSpec) -> Tempering:
    """The tempering of a specification; the default one for a metric that has none."""
    iterations = None if spec.iterations == CONVERGED else int(spec.iterations or 1)
    return Tempering(spec.temperature or 1.0, iterations, Objective(spec.objective or Objective.EXPECTED))


def _blank(job: Job, number: int) -> PairScores:
    precision = np.full(number, np.nan)
    if job.spec.metric in SYMMETRIC:
        return PairScores(precision)
    return PairScores(precision, precision.copy(), precision.copy())


def _items(view: View, pairs: Pairs, piece: slice, ids: np.ndarray, rows: np.ndarray) -> Items:
    """List the (text, group) combinations of a piece and how often each occurs."""
    segment = pairs.segment[piece]
    batch = (segment // view.size) - segment[0] // view.size if view.centering is Centering.BATCH else np.zeros_like(segment)
    sides = view.groups_per_batch
    groups = (int(batch[-1]) + 1) * sides
    hyp_key = rows[np.searchsorted(ids, pairs.hyp[piece])] * groups + batch * sides
    ref_key = rows[np.searchsorted(ids, pairs.ref[piece])] * groups + batch * sides + (sides - 1)
    keys, inverse = np.unique(np.r_[hyp_key, ref_key], return_inverse=True)
    hyp, ref = inverse[: len(segment)], inverse[len(segment) :]
    # A hypothesis belongs to its population once, however many references it is paired with.
    first = np.r_[True, segment[1:] != segment[:-1]]
    weight = np.bincount(hyp[first], minlength=len(keys)) + np.bincount(ref, minlength=len(keys))
    return Items(keys // groups, keys % groups, weight, groups, hyp, ref)


def _select(view: View, encoded: Encoded, items: Items) -> TokenVectors:
    """The tokens of every item that its special-token policy lets take part, as the encoder gave them."""
    keep = encoded.special <= SPECIAL_LEVEL[view.special]  # (T,)
    whole = TokenVectors(keep[:, None], encoded.lengths)
    lengths = torch.zeros_like(encoded.lengths).index_add(0, whole.owners, keep.to(torch.int64))
    row = torch.from_numpy(items.row).to(lengths.device)
    kept = torch.nonzero(keep).squeeze(1)
    positions = kept[span_indices((torch.cumsum(lengths, 0) - lengths)[row], lengths[row])]
    counted = encoded.special[positions] == 0 if view.special is Special.PARTNERS else None
    return TokenVectors(encoded.layers[view.layer][positions], lengths[row], counted)


def _sum_items(tokens: TokenVectors, items: Items) -> GroupSums:
    device = tokens.vectors.device
    return sum_groups(tokens, torch.from_numpy(items.group).to(device), torch.from_numpy(items.weight).to(device), items.groups)


def _centered(view: View, encoded: Encoded, items: Items, corpus: GroupSums | None, background: Tensor | None) -> TokenVectors:
    """Unit vectors of every item."""
    tokens = _select(view, encoded, items)
    group = torch.from_numpy(items.group).to(tokens.vectors.device)
    means = None
    if view.centering is Centering.BATCH:
        means = Means(_sum_items(tokens, items).mean(), group)
    elif corpus is not None:
        means = Means(corpus.mean(), group)
    elif background is not None:
        means = Means(background.to(tokens.vectors.device)[None, :], torch.zeros_like(group))
    return center(tokens, view.centering, view.vectors, means)


def _texts_of_rows(ids: np.ndarray, rows: np.ndarray, wanted: np.ndarray) -> list[int]:
    """The texts that are held in some rows of the store."""
    return list(map(int, ids[np.isin(rows, wanted)]))


def _tokens_of(tokens: TokenVectors) -> np.ndarray:
    """Tokens of every item to compare; none where not one of them counts; shape (I,)."""
    return torch.where(tokens.counted_lengths > 0, tokens.lengths, 0).cpu().numpy()


def _fill_tokenless(tokens: TokenVectors, items: Items, bare: np.ndarray, found: list[PairScores], piece: slice) -> None:
    """Score the pairs of a piece in which a text has no token to compare.

    A text that never had one (`bare`, shape (I,)) scores as an empty one does. A text of which centering leaves nothing
    scores 1 against itself and 0 against any other: nothing is known of it.
    """
    lengths = _tokens_of(tokens)
    n, m = lengths[items.hyp], lengths[items.ref]
    for p in np.flatnonzero((n == 0) | (m == 0)):
        hyp, ref = items.hyp[p], items.ref[p]
        score = empty_score(bare[hyp], bare[ref]) if bare[hyp] or bare[ref] else float(items.row[hyp] == items.row[ref])
        for scores in found:
            for side in scores:
                if side is not None:
                    side[piece.start + p] = score


def _score_piece(tokens: TokenVectors, items: Items, jobs: list[Job], found: list[PairScores], piece: slice) -> None:
    """Align all pairs of a piece by every job of one view and put the scores in their places."""
    lengths = _tokens_of(tokens)
    n, m = lengths[items.hyp], lengths[items.ref]
    selves = _self_scores(tokens, lengths, jobs)
    for block in _blocks(np.flatnonzero((n > 0) & (m > 0)), n, m, tokens.vectors.shape[1]):
        hyp, ref = (torch.from_numpy(side[block]).to(tokens.lengths.device) for side in (items.hyp, items.ref))
        x, y = pad(tokens, hyp), pad(tokens, ref)
        s = similarities(x, y)  # (B, N, M)
        for job, scores, own in zip(jobs, found, selves, strict=True):
            sides = align(job.spec.metric, s, x, y, tempering_of(job.spec))
            prf = combine_sides(sides, None if own is None else Selves(own[hyp], own[ref], hyp == ref))
            for side, values in zip(scores, prf, strict=True):
                if side is not None:
                    side[piece.start + block] = values.to("cpu", torch.float64).numpy()


def _self_scores(tokens: TokenVectors, lengths: np.ndarray, jobs: list[Job]) -> list[Tensor | None]:
    """C(X, X) of every item for every job that divides by it; shape (I,), 0 for an item without tokens."""
    wanted = [CATALOGUE[job.spec.metric].self_normalised and bool(job.spec.normalize) for job in jobs]
    own = [tokens.vectors.new_zeros(len(lengths)) if want else None for want in wanted]
    if not any(wanted):
        return own
    for block in _blocks(np.flatnonzero(lengths), lengths, lengths, tokens.vectors.shape[1]):
        item = torch.from_numpy(block).to(tokens.lengths.device)
        x = pad(tokens, item)
        s = similarities(x, x)  # (B, N, N)
        for job, values in zip(jobs, own, strict=True):
            if values is not None:
                values[item] = align_self(job.spec.metric, s, x, tempering_of(job.spec))
    return own


def _blocks(chosen: np.ndarray, n: np.ndarray, m: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """Group pairs of like sizes (n, m) into blocks of bounded memory."""
    order = chosen[np.lexsort((m[chosen], n[chosen]))]
    start, longest_n, longest_m = 0, 0, 0
    for stop, (rows, columns) in enumerate(zip(n[order].tolist(), m[order].tolist(), strict=True)):
        longest_n, longest_m, size = max(longest_n, rows), max(longest_m, columns), stop - start + 1
        if size > 1 and (size * longest_n * longest_m > BLOCK_CELLS or size * (longest_n + longest_m) * width > BLOCK_NUMBERS):
            yield order[start:stop]
            start, longest_n, longest_m = stop, rows, columns
    if len(order):
        yield order[start:]
