"""How alike a model's word vectors are, layer by layer, under every centering: Figures 1 and 2 of the TWMD paper, and
its section 5.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import torch
from scipy import stats

from twmd_registry.encode.encoder import Encoder
from twmd_registry.encode.mean_vectors import MeanVectors
from twmd_registry.engine.backends import TokenAlignmentBackend
from twmd_registry.engine.input_warnings import warn_about_small_samples
from twmd_registry.errors import InputError, ModelError, warn
from twmd_registry.metaeval.layer_words import LayerWords, directions, read_layers, with_background
from twmd_registry.metaeval.word_pairs import Similarity, WordPairs, pair_words, words_of
from twmd_registry.models.arithmetic import exact_arithmetic
from twmd_registry.registry.names import Centering, MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec

PAIRS = 2000
"""Of words, for every similarity; what must be in memory is at most six vectors for each, in every layer."""
NEGLIGIBLE = 0.05
"""A similarity up to this, or a change from the first layer to the last up to this, counts as none."""
TREND = 0.5
"""Spearman's rank correlation of a similarity with the layer's number from which it counts as rising (or, negative, as
falling).
"""
LEAST_LAYERS = 3


class Property(StrEnum):
    """What the paper asks of word vectors."""

    ZERO = "zero expected similarity"
    DECREASING = "decreasing self-similarity"
    INCREASING = "increasing intra-similarity"


class MeanCosine(NamedTuple):
    """A mean cosine.

    Attributes:
        mean: From -1 to 1; NaN where no pair has one.
        error: Standard error of the drawing of pairs from this corpus: 0 where all pairs were taken, NaN where fewer
            than two were drawn.
        pairs: Pairs that it is taken over.
        left_out: Pairs of which a word has no direction: centering left nothing of it.
    """

    mean: float
    error: float
    pairs: int
    left_out: int


class LayerRow(NamedTuple):
    """One layer under one centering."""

    centering: Centering
    layer: int
    similarities: dict[Similarity, MeanCosine]


class Verdict(NamedTuple):
    """Whether a property holds under a centering.

    Attributes:
        centering: The centering.
        property: The property.
        holds: None where it is undefined.
        evidence: The numbers that decide it, as a sentence.
    """

    centering: Centering
    property: Property
    holds: bool | None
    evidence: str


class Diagnosis(NamedTuple):
    """What was found out about a model.

    Attributes:
        model: Its name and content, as in a signature.
        texts: Texts that have a word.
        words: Words in them: tokens that are not special.
        truncated: Texts that were cut at the model's limit.
        empty: Texts without a word, which were left out.
        rows: By centering, then by layer.
        verdicts: By centering, the three properties.
    """

    model: str
    texts: int
    words: int
    truncated: int
    empty: int
    rows: tuple[LayerRow, ...]
    verdicts: tuple[Verdict, ...]


def diagnose(
    model: str,
    texts: Sequence[str],
    options: RunOptions,
    *,
    pairs: int = PAIRS,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Diagnosis:
    """Measure how alike words are in every layer of a model, under every centering, and say which of three properties
    hold.

    A word is a token that is not special. Means are taken over every word of the texts: of the sentence, of the batch
    (32 texts in their order), of the corpus; ``background`` is there when a mean vector comes with this package for the
    model. The similarities are cosines of (a) two random words of the corpus, (b) one word in two different sentences,
    (c) two different words of one sentence; see `Similarity` for what counts how much. All centerings and layers see
    the same pairs.

    Args:
        model: Hub id, folder or alias of an encoder.
        texts: The corpus.
        options: Where and how fast.
        pairs: Most pairs for every similarity; all there are when there are fewer, and then nothing is left to chance.
        seed: Of the drawing.
        progress: Called with the number of texts encoded.

    Returns:
        The means with their standard errors, and the properties by the rules of `judge`.

    Raises:
        InputError: Fewer than two texts have a word, or `pairs` or `seed` is out of range.
        ModelError: The model is not here or cannot be loaded.

    Warns:
        TwmdWarning: Fewer than `twmd_registry.engine.input_warnings.RELIABLE_SAMPLE` texts; texts that are cut, or have
            no word; nothing to compare.
    """
    if pairs < 1 or seed < 0:
        raise InputError(f"pairs={pairs}, seed={seed}: expected at least one pair and a seed from 0.")
    backend = TokenAlignmentBackend(
        make_spec(MetricName.SBERT, model=model, layer=0, centering=Centering.NONE), options
    )
    encoder: Encoder = backend.model
    with encoder.lock, torch.inference_mode(), exact_arithmetic():
        tokens = encoder.tokenise(texts)
        full = np.flatnonzero([bool((special == 0).any()) for special in tokens.special])
        _check_texts(len(full), len(texts))
        kept = tokens.select(full)
        words, rng = words_of(kept), np.random.default_rng(seed)
        samples = {one: pair_words(one, words, encoder.tokenizer.unk_token_id, pairs, rng) for one in Similarity}
        _warn(len(texts) - len(full), int(kept.truncated.sum()), samples)
        sampled = np.unique(np.concatenate([np.r_[one.first, one.second] for one in samples.values()]))
        layers = read_layers(encoder, kept, words, sampled, batch_tokens=options.batch_tokens, progress=progress)
    background = _background(model, options)
    layers = layers if background is None else with_background(layers, background)
    rows = tuple(_rows(layers, {one: _renumber(drawn, sampled) for one, drawn in samples.items()}))
    by_centering = [[row for row in rows if row.centering is centering] for centering in layers[0].means]
    verdicts = tuple(verdict for own in by_centering for verdict in judge(own))
    name, truncated = f"{backend.files.name}@{backend.files.fingerprint}", int(kept.truncated.sum())
    return Diagnosis(name, len(full), len(words.ids), truncated, len(texts) - len(full), rows, verdicts)


def judge(rows: Sequence[LayerRow]) -> list[Verdict]:
    """Say which of the three properties (TWMD paper, section 5) hold under one centering.

    1. Zero expected similarity: the mean of random words is within `NEGLIGIBLE` of zero in every layer.
    2. Decreasing self-similarity: it is lower in the last layer than in the first by more than `NEGLIGIBLE`, and its
    rank
       correlation with the layer's number is at most -`TREND`.
    3. Increasing intra-similarity: it is higher in the last layer by more than `NEGLIGIBLE`, and its rank correlation
    is at
       least `TREND`.

    The paper words the properties ("approximately", "in higher layers"); the bounds are ours. A similarity that is
    undefined in a layer leaves its property undefined, and so do fewer than three layers the second and the third.

    Args:
        rows: Every layer's, in order, the embeddings' first.
    """
    centering = rows[0].centering
    means = {one: np.array([row.similarities[one].mean for row in rows]) for one in Similarity}
    return [
        Verdict(centering, Property.ZERO, *_near_zero(means[Similarity.RANDOM])),
        Verdict(centering, Property.DECREASING, *_moves(means[Similarity.SELF], -1)),
        Verdict(centering, Property.INCREASING, *_moves(means[Similarity.INTRA], 1)),
    ]


def _near_zero(means: np.ndarray) -> tuple[bool | None, str]:
    if np.isnan(means).any():
        return None, f"undefined in {int(np.isnan(means).sum())} of {len(means)} layers"
    worst = int(np.abs(means).argmax())
    return bool(
        abs(means[worst]) <= NEGLIGIBLE
    ), f"farthest from zero in layer {worst}: {means[worst]:.3f}; allowed {NEGLIGIBLE}"


def _moves(means: np.ndarray, direction: int) -> tuple[bool | None, str]:
    """Whether a similarity rises (1) or falls (-1) over the layers."""
    if np.isnan(means).any():
        return None, f"undefined in {int(np.isnan(means).sum())} of {len(means)} layers"
    if len(means) < LEAST_LAYERS:
        return None, f"undefined: {len(means)} layers, {LEAST_LAYERS} are needed"
    change = float(means[-1] - means[0])
    ends = f"from {means[0]:.3f} to {means[-1]:.3f}"
    if np.ptp(means) == 0:
        return False, f"{ends}: the same in every layer"
    trend = float(stats.spearmanr(np.arange(len(means)), means).statistic)
    holds = direction * change > NEGLIGIBLE and direction * trend >= TREND
    return (
        holds,
        (
            f"{ends}; rank correlation with the layer {trend:.2f}; expected a change beyond "
            f"{direction * NEGLIGIBLE} and {direction * TREND}"
        ),
    )


def _check_texts(with_words: int, texts: int) -> None:
    """Refuse texts in which nothing can be compared, and warn of few."""
    if with_words == 0:
        raise InputError(
            f"there is nothing to diagnose: none of the {texts} texts has a word. Give sentences of the language at "
            "hand."
        )
    if with_words == 1:
        raise InputError("one text alone has a word: give 2 texts or more, for words of different texts are compared.")
    warn_about_small_samples({"": with_words})


def _warn(empty: int, truncated: int, samples: Mapping[Similarity, WordPairs]) -> None:
    """Say which texts count only in part, and what cannot be measured."""
    if empty:
        warn(f"texts without a word, left out: {empty}.")
    if truncated:
        warn(f"texts cut at the model's limit: {truncated}.")
    missing = [one for one, drawn in samples.items() if len(drawn.first) == 0]
    if missing:
        warn(
            f"undefined, for no two words of the texts can be compared: {', '.join(missing)}; give more or "
            "longer texts."
        )


def _background(model: str, options: RunOptions) -> MeanVectors | None:
    """The mean vectors that come with this package for a model, if any."""
    with contextlib.suppress(ModelError):
        return TokenAlignmentBackend(
            make_spec(MetricName.SBERT, model=model, layer=0, centering=Centering.BACKGROUND), options
        ).background
    return None


def _renumber(drawn: WordPairs, sampled: np.ndarray) -> WordPairs:
    """The same pairs by places among the sampled words."""
    return drawn._replace(first=np.searchsorted(sampled, drawn.first), second=np.searchsorted(sampled, drawn.second))


def _rows(layers: Sequence[LayerWords], samples: Mapping[Similarity, WordPairs]) -> Iterator[LayerRow]:
    for centering in layers[0].means:
        for k, layer in enumerate(layers):
            vectors = directions(layer, centering)
            yield LayerRow(centering, k, {one: _estimate(vectors, drawn) for one, drawn in samples.items()})


def _estimate(vectors: np.ndarray, drawn: WordPairs) -> MeanCosine:
    cosines = np.einsum("pd,pd->p", vectors[drawn.first], vectors[drawn.second]).astype(np.float64)
    has = ~np.isnan(cosines)
    found, left_out = cosines[has], int((~has).sum())
    if len(found) == 0:
        return MeanCosine(np.nan, np.nan, 0, left_out)
    mean = float(np.average(found, weights=drawn.weight[has]))
    if drawn.complete:
        return MeanCosine(mean, 0.0, len(found), left_out)
    error = float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else np.nan
    return MeanCosine(mean, error, len(found), left_out)
