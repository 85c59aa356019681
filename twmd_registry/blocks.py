"""From the vectors of some texts to C(X, Y) of their pairs, block by block: pure, and differentiable in the vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from twmd_registry.align import align, align_self, similarities, similarities_for
from twmd_registry.align.exact import TRANSFORMS
from twmd_registry.align.settings import Settings
from twmd_registry.assemble import Selves, combine_sides, empty_score
from twmd_registry.carriers import EPSILON, NOTHING, PRF, Padded, Sides, TokenVectors, pad
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import CONVERGED, Distance, MetricName, Objective, Transform
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.views import Items

BLOCK_CELLS = 1_000_000
"""Cells of S (pairs x hypothesis tokens x reference tokens) that are aligned at once."""
BLOCK_NUMBERS = 8_000_000
"""Numbers in the padded vectors of a block."""


def settings_of(spec: MetricSpec) -> Settings:
    """What an aligner needs to know of a specification; defaults for what the metric does not use."""
    return Settings(
        temperature=spec.temperature or 1.0,
        iterations=None if spec.iterations == CONVERGED else int(spec.iterations or 1),
        objective=Objective(spec.objective or Objective.EXPECTED),
        distance=Distance(spec.distance or Distance.SIMILARITY),
        transform=Transform(spec.transform or Transform.LINEAR),
    )


def counts_of(tokens: TokenVectors) -> np.ndarray:
    """Tokens of every item to compare; none where not one of them counts; shape (I,)."""
    return torch.where(tokens.carrying_lengths > 0, tokens.lengths, 0).cpu().numpy()


def align_pairs(tokens: TokenVectors, items: Items, bare: np.ndarray, specs: Sequence[MetricSpec]) -> tuple[list[PRF], np.ndarray]:
    """Align all pairs of some items by every specification.

    A pair in which a text never had a token (`bare`) scores as empty texts do. A text of which nothing is left, or whose
    C(X, X) is not positive, scores 1 against itself and 0 against any other: nothing is known of it.

    Args:
        tokens: What is compared of every item.
        items: The items, and the pairs of them; P pairs.
        bare: Items that never had a token; shape (I,), bool.
        specs: Specifications of one view.

    Returns:
        Per specification the sides of every pair, each of shape (P,); and the items of which nothing is left, shape (I,), bool.
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
            part.append(combine_sides(sides, None if own is None else Selves(own[hyp], own[ref], same)))
    back = torch.from_numpy(np.argsort(np.concatenate(places))).to(tokens.lengths.device)  # (P,)
    nothing = np.logical_or.reduce([counts == 0, *((own <= 0).cpu().numpy() for own in selves if own is not None)])
    return [PRF(*(torch.cat(side)[back] for side in zip(*part, strict=True))) for part in parts], nothing


def _align_block(x: Padded, y: Padded, specs: Sequence[MetricSpec]) -> Iterator[Sides]:
    """The sides of B pairs for every specification; a plan is sought once, whatever its cost is turned into."""
    s = similarities(x, y)  # (B, N, M)
    planned: dict[tuple[MetricName, Settings], Sides] = {}
    for spec in specs:
        how = settings_of(spec)
        plan = spec.metric, how._replace(transform=Transform.LINEAR)
        if plan not in planned:
            planned[plan] = align(plan[0], similarities_for(how.distance, s, x, y), x, y, plan[1])
        yield Sides(*map(TRANSFORMS[how.transform], planned[plan]))


def _score_tokenless(items: Items, pairs: np.ndarray, bare: np.ndarray) -> list[float]:
    """The scores of pairs in which a text has no token to compare."""
    hyp, ref = items.hyp[pairs], items.ref[pairs]
    same = items.row[hyp] == items.row[ref]
    sides = zip(bare[hyp], bare[ref], same, strict=True)
    return [empty_score(before, after) if before or after else float(alike) for before, after, alike in sides]


def _self_scores(tokens: TokenVectors, counts: np.ndarray, specs: Sequence[MetricSpec]) -> list[Tensor | None]:
    """C(X, X) of every item for every specification that divides by it; shape (I,).

    0 for an item without tokens, and where C(X, X) is nothing but rounding errors: of S, and of vectors that cancel in a mean.
    """
    wanted = [CATALOGUE[spec.metric].self_normalised and bool(spec.normalize) for spec in specs]
    own = [tokens.vectors.new_zeros(len(counts)) if want else None for want in wanted]
    if not any(wanted):
        return own
    errors = tokens.rounding_errors.new_zeros(len(counts)).scatter_reduce(0, tokens.owners, tokens.rounding_errors, "amax")  # (I,)
    for block in _blocks(np.flatnonzero(counts), counts, counts, tokens.vectors.shape[1]):
        item = torch.from_numpy(block).to(tokens.lengths.device)
        x = pad(tokens, item)
        s = similarities(x, x)  # (B, N, N)
        largest = torch.where(x.mask, s.detach().diagonal(dim1=1, dim2=2), 0.0).amax(1)  # (B,)
        noise = NOTHING * EPSILON * largest + (NOTHING * errors[item]).square()  # (B,)
        for spec, values in zip(specs, own, strict=True):
            if values is not None:
                c = align_self(spec.metric, s, x, settings_of(spec))  # (B,)
                values[item] = torch.where(c.abs() <= noise, 0.0, c)  # NaN stays NaN
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
