"""Turn encoded texts into the units that metrics compare: tokens or n-grams.

In order: select and weigh tokens, center, aggregate layers, replace unknown and copied tokens, form n-grams, scale.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from twmd_registry.encode.encoder import Encoder
from twmd_registry.encode.mean_vectors import SPECIAL_LEVEL
from twmd_registry.encode.words import Phrase, copied_tokens, left_out
from twmd_registry.engine.aggregation import aggregate
from twmd_registry.engine.pairs import Pairs
from twmd_registry.registry import names
from twmd_registry.registry.metric_spec import AppliedSpec
from twmd_registry.registry.values import Aggregation, Centering, Idf
from twmd_registry.tensors import EPSILON, ZERO_TOLERANCE, EncodedTexts, TokenVectors, span_indices


@dataclass(frozen=True, kw_only=True)
class TokenView:
    """The settings that determine token vectors, with fitted values.

    Metrics with equal views share all vectors. Fitted values are not compared, because the settings name them by hash.
    """

    layers: tuple[int, ...]
    aggregation: Aggregation | None
    special: names.Special
    unknown: names.Unknown
    subwords: names.Subwords
    punctuation: names.Punctuation
    stopwords: str | None  # The hash of `stop_words`
    stopword_unit: names.StopwordUnit
    ngram: int | str | None
    idf: Idf | None
    centering: Centering
    sources: bool  # Whether hypotheses are compared with sources, from which they may copy words
    vectors: names.Vectors

    # Background means by layer, for both sides or one each; shape (1, D) or (2, D)
    means: dict[int, Tensor] | None = field(default=None, compare=False)
    stop_words: frozenset[Phrase] = field(default=frozenset(), compare=False)  # Left out
    # Weights of token ids in hypotheses and in references; each of shape (V,)
    weights: tuple[Tensor, Tensor] | None = field(default=None, compare=False)

    @property
    def groups_per_batch(self) -> int:
        """Means per centering batch or corpus: one for both sides, or one each."""
        return 2 if self.centering.side == "separate" or len(self.centering.means) > 1 else 1


class TokenItems(NamedTuple):
    """The I items of a chunk: its distinct texts, once per centering group. With ``idf=corpus`` a text is a separate
    item on each side; with ``against=source`` a hypothesis is a separate item for each source.
    """

    row: np.ndarray  # The text, as a row of the encoded texts; shape (I,)
    group: np.ndarray  # The centering group; shape (I,)
    side: np.ndarray  # 1 if weighted as a reference, otherwise 0; shape (I,)
    occurrences: np.ndarray  # How often the text is in the group; shape (I,)
    groups: int  # Number of groups
    partner: np.ndarray  # The row of a hypothesis's source; -1 for other items; shape (I,)
    hyp: np.ndarray  # The item of each pair's hypothesis; shape (pairs of the chunk,)
    ref: np.ndarray  # The item of each pair's reference; likewise


def make_view(spec: AppliedSpec) -> TokenView:
    """Return the view of an applied specification, without fitted values."""
    return TokenView(
        layers=spec.layers,
        aggregation=spec.aggregation,
        special=spec.special or "none",
        unknown=spec.unknown or "keep",
        subwords=spec.subwords or "keep",
        punctuation=spec.punctuation or "keep",
        stopwords=spec.stopwords,
        stopword_unit=spec.stopword_unit or "word",
        ngram=spec.ngram,
        idf=spec.idf,
        centering=spec.centering,
        sources=spec.against == "source",
        vectors=spec.vectors or "unit",
    )


def make_items(view: TokenView, pairs: Pairs, chunk: slice, texts: np.ndarray) -> TokenItems:
    """List the items of a chunk; `texts` are the indices of the encoded texts."""
    segment = pairs.segment[chunk].astype(np.int64)
    batch = np.zeros_like(segment)
    if view.centering.kind == "batch":
        batch = segment // cast("int", view.centering.size)
        batch -= batch[0]
    per_batch = view.groups_per_batch
    groups = (int(batch[-1]) + 1) * per_batch
    order = np.argsort(texts)
    hyp_row, ref_row = (order[np.searchsorted(texts, side[chunk], sorter=order)] for side in (pairs.hyp, pairs.ref))
    first, none = batch * per_batch, np.full_like(batch, -1)
    # Each item's properties, for all hypotheses and then all references; with idf=corpus, a text has different weights
    # as a hypothesis and as a reference.
    row = np.r_[hyp_row, ref_row]
    group = np.r_[first, first + per_batch - 1]
    side = np.r_[np.zeros_like(batch), np.full_like(batch, view.idf == Idf("corpus"))]
    partner = np.r_[ref_row if view.sources else none, none]
    shape = len(texts), groups, 2, len(texts) + 1
    keys, inverse = np.unique(np.ravel_multi_index((row, group, side, partner + 1), shape), return_inverse=True)
    row, group, side, partner = np.unravel_index(keys, shape)
    hyp, ref = inverse[: len(segment)], inverse[len(segment) :]
    # A hypothesis counts once per segment, however many references it has. (Sentences of a document count once per
    # reference; a sentence that follows itself counts once.)
    first = np.r_[True, (segment[1:] != segment[:-1]) | (hyp[1:] != hyp[:-1])]
    occurrences = np.bincount(hyp[first], minlength=len(keys)) + np.bincount(ref, minlength=len(keys))
    return TokenItems(row, group, side, occurrences, groups, partner - 1, hyp, ref)


class Selection(NamedTuple):
    """The tokens of a chunk's items to compare."""

    layers: list[TokenVectors]  # By layer, with encoder vectors and weights
    weightless: Tensor | None = None  # Items whose tokens all have weight 0; shape (I,), bool; None without weights
    wordless: np.ndarray = np.zeros(0, dtype=np.int64)  # Rows of texts that keep special tokens only


def select(view: TokenView, encoded: EncodedTexts, items: TokenItems, encoder: Encoder) -> Selection:
    """Select the tokens to compare, and weight them."""
    keep = encoded.special <= SPECIAL_LEVEL[view.special]  # (T,)
    wordless = np.zeros(0, dtype=np.int64)
    if view.stopwords or view.subwords == "drop" or view.punctuation != "keep":
        ordinary = (encoded.special == 0).cpu().numpy()
        gone = left_out(
            encoder.pieces,
            encoded.ids.cpu().numpy(),
            ordinary,
            encoded.lengths.cpu().numpy(),
            subwords=view.subwords,
            punctuation=view.punctuation,
            stop_words=view.stop_words,
            stopword_unit=view.stopword_unit,
        )
        keep = keep & ~torch.from_numpy(gone).to(keep.device)
        owners = np.repeat(np.arange(len(encoded.lengths)), encoded.lengths.cpu().numpy())
        had, have, left = (
            np.bincount(owners, weights=which, minlength=len(encoded.lengths)) > 0
            for which in (ordinary, ordinary & ~gone, keep.cpu().numpy())
        )
        wordless = np.flatnonzero(had & ~have & left)
    kept = torch.nonzero(keep).squeeze(1)
    lengths = torch.bincount(torch.repeat_interleave(encoded.lengths)[kept], minlength=len(encoded.lengths))
    row = torch.from_numpy(items.row).to(lengths.device)
    positions = kept[span_indices((torch.cumsum(lengths, 0) - lengths)[row], lengths[row])]
    counted = None
    if view.special == "partners":  # bert_score's rule: a literal [SEP] has no weight, T5's </s> has one
        ends = [i for i in (encoder.tokenizer.cls_token_id, encoder.tokenizer.sep_token_id) if i is not None]
        counted = ~torch.isin(encoded.ids[positions], torch.tensor(ends, device=positions.device))
    copied = None
    if view.sources:
        owners = np.repeat(np.arange(len(row)), lengths[row].cpu().numpy())
        found = copied_tokens(encoder.pieces, encoded, positions.cpu().numpy(), owners, items.partner)
        copied = torch.from_numpy(found).to(positions.device)
    layers = [
        TokenVectors(encoded.layers[k].index_select(0, positions), lengths[row], counted, None, positions, copied)
        for k in view.layers
    ]
    if view.weights is None:
        return Selection(layers, None, wordless)
    weights, weightless = _weigh(layers[0], encoded.ids[positions], items, view.weights)
    return Selection([tokens._replace(weights=weights) for tokens in layers], weightless, wordless)


def _weigh(
    tokens: TokenVectors, ids: Tensor, items: TokenItems, weights: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the weight of each token, shape (T,), and the items without a positive weight, shape (I,).

    Tokens of such an item get equal weights.
    """
    owner = torch.repeat_interleave(tokens.lengths)  # (T,)
    side = torch.from_numpy(items.side).to(ids.device)[owner]  # (T,)
    weight = torch.stack(weights).to(ids.device)[side, ids]  # (T,)
    positive = weight > 0 if tokens.counted is None else (weight > 0) & tokens.counted
    weightless = (torch.bincount(owner[positive], minlength=len(tokens.lengths)) == 0) & (tokens.lengths > 0)
    return torch.where(weightless[owner], 1.0, weight), weightless


def sum_groups(tokens: TokenVectors, group: Tensor, occurrences: Tensor, groups: int) -> Tensor:
    """Sum the vectors of counted tokens in G groups; shape (G, D + 1), float64. The last column counts tokens.

    `group` is the group of each item, and `occurrences` how often the item is in it; shape (I,).
    """
    vectors, lengths = tokens.vectors, tokens.lengths  # (T, D), (I,)
    owner = torch.repeat_interleave(lengths)  # (T,)
    if tokens.counted is not None:
        vectors = torch.where(tokens.counted[:, None], vectors, 0.0)
        lengths = torch.bincount(owner[tokens.counted], minlength=len(lengths))
    texts = vectors.new_zeros(len(lengths), vectors.shape[1]).index_add(0, owner, vectors)  # (I, D)
    rows = torch.cat([texts.to(torch.float64), lengths[:, None]], dim=1) * occurrences[:, None]
    return rows.new_zeros(groups, rows.shape[1]).index_add(0, group, rows)


def means_of_groups(sums: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the means of `sum_groups`; shape (G, D); zero for a group without tokens."""
    return (sums[:, :-1] / sums[:, -1:].clamp(min=1)).to(dtype)


def center(
    layers: Sequence[TokenVectors],
    centering: names.CenteringKind,
    vectors: names.Vectors,
    means: Sequence[Tensor] | None = None,
) -> list[TokenVectors]:
    """Subtract a mean from token vectors and scale them to norm 1 (unless ``raw``), layer by layer (TWMD paper,
    section 5).

    A token reduced to rounding error (`ZERO_TOLERANCE`) has no direction and is dropped in every layer. An item may
    lose all tokens, like a one-word text under ``sentence`` centering.

    Args:
        layers: Tokens by layer.
        centering: The kind.
        vectors: ``unit`` or ``raw``.
        means: For ``batch``, ``corpus`` and ``background``: by layer, the mean of each item; shape (I, D).

    Raises:
        ValueError: The kind needs means, and none were passed.
    """
    parts = []
    for k, tokens in enumerate(layers):
        centered, mean = tokens.vectors, means[k] if means else None  # (T, D), (I, D)
        if centering == "sentence":
            every = torch.arange(len(tokens.lengths), device=tokens.lengths.device)
            mean = means_of_groups(sum_groups(tokens, every, torch.ones_like(every), len(every)), centered.dtype)
        if centering == "dimension":
            centered = centered - centered.mean(dim=1, keepdim=True)
        elif centering != "none":
            if mean is None:
                raise ValueError("this centering needs means: sum_groups(...) or a background vector.")
            centered = centered - mean.index_select(0, torch.repeat_interleave(tokens.lengths))
        norms = torch.linalg.vector_norm(centered, dim=1)  # (T,)
        # The rounding error of a difference is proportional to the longer of the vector and the difference.
        longer = torch.maximum(torch.linalg.vector_norm(tokens.vectors.detach(), dim=1), norms.detach())
        parts.append((tokens, centered, norms, EPSILON * longer))
    # NaN does not count as absent.
    keep = ~torch.stack([norms <= ZERO_TOLERANCE * errors for _, _, norms, errors in parts]).any(0)  # (T,)
    whole = bool(keep.all())
    centered_layers = []
    for tokens, centered, norms, errors in parts:
        # A dropped token is divided by 1: a division by 0 would be NaN, here or in the gradients.
        divisor = torch.ones_like(norms) if vectors == "raw" else torch.where(keep, norms, 1.0)
        scaled = tokens._replace(vectors=centered / divisor[:, None], rounding=errors / divisor.detach())
        centered_layers.append(scaled if whole else scaled.select(keep))
    return centered_layers


def sum_items(tokens: TokenVectors, items: TokenItems) -> Tensor:
    """Return `sum_groups` by centering group."""
    device = tokens.vectors.device
    group, occurrences = (torch.from_numpy(array).to(device) for array in (items.group, items.occurrences))
    return sum_groups(tokens, group, occurrences, items.groups)


def make_units(
    view: TokenView, encoded: EncodedTexts, selection: Selection, items: TokenItems, corpus: Tensor | None
) -> tuple[TokenVectors, TokenVectors]:
    """Center the tokens of each layer, aggregate layers, and form units.

    Args:
        view: The settings.
        encoded: The encoded texts.
        selection: The tokens to compare. N-grams of weightless items have weight 1, as without idf.
        items: The items of the chunk.
        corpus: For ``centering=corpus``: `sum_groups` of the corpus by layer; shape (L, G, D + 1).

    Returns:
        The centered tokens, and the units: tokens or n-grams with weights, of norm 1 unless ``vectors=raw``.
    """
    device, layers, weightless = encoded.codes.device, selection.layers, selection.weightless
    means = None
    if view.centering.kind in {"batch", "corpus", "background"}:
        group = torch.from_numpy(items.group).to(device)
        if view.centering.kind == "batch":
            means = [means_of_groups(sum_items(tokens, items), tokens.vectors.dtype)[group] for tokens in layers]
        elif corpus is not None:
            means = [means_of_groups(sums)[group] for sums in corpus]
        elif view.means is not None:
            means = [view.means[k].to(device)[group] for k in view.layers]
    centered = center(layers, view.centering.kind, view.vectors, means)
    tokens = centered[0]
    if view.aggregation is not None:
        errors = torch.stack([layer.rounding for layer in centered], dim=1)  # (T, L)
        vectors = aggregate(torch.stack([layer.vectors for layer in centered], dim=1), view.aggregation)
        tokens = tokens._replace(vectors=vectors, rounding=torch.linalg.vector_norm(errors, dim=1))
    if view.sources or (view.unknown == "apart" and bool(encoded.codes.any())):
        tokens = _replace_tokens(view, encoded, tokens)
    units = tokens
    if tokens.counted is not None:  # a token that does not count has no weight
        weights = tokens.counted.to(tokens.vectors.dtype) if tokens.weights is None else tokens.weights
        units = tokens._replace(counted=None, weights=torch.where(tokens.counted, weights, 0.0))
    if view.ngram:
        units = form_ngrams(units, view.ngram)
        if units.weights is not None and weightless is not None:
            light = torch.repeat_interleave(weightless, units.lengths)
            units = units._replace(weights=torch.where(light, 1.0, units.weights))
    has_norm_one = len(view.layers) == 1 and not view.ngram  # as `center` returned it
    return tokens, units if has_norm_one or view.vectors == "raw" else scale_to_norm_one(units)


def _replace_tokens(view: TokenView, encoded: EncodedTexts, tokens: TokenVectors) -> TokenVectors:
    """Turn unknown tokens to the direction of their surface string, and copied tokens to that of their piece.

    Norms do not change.
    """
    codes = (encoded.codes if view.unknown == "apart" else torch.zeros_like(encoded.codes))[tokens.positions]  # (T,)
    if tokens.copied is not None:
        codes = torch.where(tokens.copied, -1 - encoded.ids[tokens.positions], codes)
    positions = torch.nonzero(codes).squeeze(1)  # (U,)
    if not len(positions):
        return tokens
    distinct, which = torch.unique(codes[positions], return_inverse=True)
    directions = np.stack([_direction(code, tokens.vectors.shape[1]) for code in distinct.tolist()])
    norms = torch.linalg.vector_norm(tokens.vectors[positions], dim=1, keepdim=True)  # (U, 1)
    replaced = torch.from_numpy(directions).to(tokens.vectors)[which] * norms  # (U, D)
    return tokens._replace(vectors=tokens.vectors.index_copy(0, positions, replaced))


def _direction(code: int, width: int) -> np.ndarray:
    """Return a pseudo-random unit vector of signs, the same on every machine; shape (D,).

    The cosine of two such vectors has mean 0 and variance 1/D.
    """
    bits = np.frombuffer(hashlib.shake_256(code.to_bytes(8, signed=True)).digest(math.ceil(width / 8)), dtype=np.uint8)
    return (2.0 * np.unpackbits(bits)[:width] - 1) / math.sqrt(width)


def form_ngrams(tokens: TokenVectors, n: int | str) -> TokenVectors:
    """Replace tokens by windows of n neighbours, or of a whole ``sentence``, with stride 1 (Eq. 3).

    A window has the weighted mean of its tokens' vectors and the sum of their weights. If all weights are 0, it has the
    plain mean and weight 0. A text of fewer than n tokens is one window.
    """
    width = tokens.lengths if n == names.SENTENCE else tokens.lengths.clamp(max=int(n))  # (I,)
    windows = torch.where(tokens.lengths > 0, tokens.lengths - width + 1, 0)  # (I,)
    first = span_indices(torch.cumsum(tokens.lengths, 0) - tokens.lengths, windows)  # (W,)
    widths = torch.repeat_interleave(width, windows)  # (W,)
    weigh = torch.ones_like(tokens.vectors[:, 0]) if tokens.weights is None else tokens.weights
    weighted, plain = (tokens.vectors.new_zeros(len(first), tokens.vectors.shape[1]) for _ in range(2))
    weights, errors = weigh.new_zeros(len(first)), tokens.rounding.new_zeros(len(first))
    for k in range(int(widths.max()) if len(widths) else 0):
        wide = torch.nonzero(widths > k).squeeze(1)
        token = first[wide] + k
        weights.index_add_(0, wide, weigh[token])
        weighted.index_add_(0, wide, weigh[token, None] * tokens.vectors[token])
        plain.index_add_(0, wide, tokens.vectors[token])
        # The error of a mean is at most this, whatever the weights.
        errors[wide] = torch.maximum(errors[wide], tokens.rounding[token])
    heavy = weights > 0
    vectors = torch.where(heavy[:, None], weighted / torch.where(heavy, weights, 1.0)[:, None], plain / widths[:, None])
    units = TokenVectors(vectors, windows, positions=first, rounding=errors)
    return units if tokens.weights is None else units._replace(weights=weights)


def scale_to_norm_one(tokens: TokenVectors) -> TokenVectors:
    """Scale vectors to norm 1; drop those that are only rounding error."""
    norms = torch.linalg.vector_norm(tokens.vectors, dim=1, keepdim=True)
    keep = ~(norms.squeeze(1) <= ZERO_TOLERANCE * tokens.rounding)  # NaN does not count as absent
    # A dropped vector is divided by 1, as in `center`.
    scaled = tokens._replace(vectors=tokens.vectors / torch.where(keep[:, None], norms, 1.0))
    return scaled if bool(keep.all()) else scaled.select(keep)


def positions_of(view: TokenView, tokens: TokenVectors, units: TokenVectors, item: int) -> list[Tensor]:
    """Return the positions of each unit's tokens in the encoded texts.

    Raises:
        ValueError: The tokens have no positions.
    """
    if tokens.positions is None or units.positions is None:
        raise ValueError("these tokens have no positions: select them with `select`.")
    positions = units.positions[torch.repeat_interleave(units.lengths) == item]
    if not view.ngram:
        return [place[None] for place in positions]
    width = (
        int(tokens.lengths[item]) if view.ngram == names.SENTENCE else min(int(view.ngram), int(tokens.lengths[item]))
    )
    return [tokens.positions[first : first + width] for first in positions.tolist()]
