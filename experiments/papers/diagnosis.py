"""Similarity of a model's word vectors by layer and centering: the TWMD paper's section 5, Figures 1 and 2."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from scipy import stats

from twmd_registry.encode.encoder import Encoder, tokenise
from twmd_registry.encode.mean_vectors import SPECIAL_LEVEL
from twmd_registry.engine.input_warnings import warn_about_small_samples
from twmd_registry.engine.pipeline import CHUNK_TOKENS
from twmd_registry.engine.token_backend import TokenAlignmentBackend
from twmd_registry.engine.token_vectors import center, means_of_groups, sum_groups
from twmd_registry.errors import InputError, ModelError
from twmd_registry.messages import warn
from twmd_registry.models.inference import exact_arithmetic
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import CenteringKind, MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec
from twmd_registry.tensors import TextTokens, TokenVectors

PAIRS = 2000
"""Largest number of word pairs per similarity. At most six vectors per pair and layer are in memory."""
BATCH_TEXTS = 32
NEGLIGIBLE = 0.05
"""Similarities, or changes from the first layer to the last, up to this count as none."""
TREND = 0.5
"""Minimum absolute rank correlation of a similarity with the layer that counts as rising or falling."""
MIN_LAYERS = 3

Similarity = Literal["random", "self", "intra"]
"""``random``: any two words of the corpus (the baseline). ``self``: a word in two different sentences; every such word
has equal weight. ``intra``: two different words of a sentence; every sentence that has two has equal weight.
"""

PROPERTIES = {
    "random": "zero expected similarity",
    "self": "decreasing self-similarity",
    "intra": "increasing intra-similarity",
}
"""The paper's requirement for each similarity."""
ESTIMATE = np.dtype([("mean", np.float64), ("error", np.float64), ("pairs", np.int64), ("left_out", np.int64)])
"""A mean cosine and its precision.

``mean`` is from -1 to 1, or NaN without a pair. ``error`` is the standard error: 0 if all pairs were taken, NaN for
fewer than two. ``pairs`` counts the pairs, and ``left_out`` those with a zero vector after centering.
"""
Verdict = tuple[bool | None, str]
"""Whether a property holds, None if undefined, and the numbers that decide it, as a sentence."""
WordPairs = tuple[np.ndarray, np.ndarray, np.ndarray, bool]
"""Both words of each pair, by position in the corpus, and the pairs' weights, which sum to 1, shape (P,) each; and
whether these are all pairs rather than a sample.
"""

LayerState = tuple[torch.Tensor, dict[CenteringKind, torch.Tensor | None]]
"""Vectors of the sampled words in a layer, shape (U, D), and the means that every centering subtracts from them."""


@dataclass(frozen=True)
class Diagnosis:
    """Similarities of a model's words, of type `ESTIMATE`; shape (centerings, layers, similarities).

    `model` is its name and content. `words` counts tokens that are not special, in `texts` texts; `empty` texts have
    none.
    """

    model: str
    texts: int
    words: int
    truncated: int
    empty: int
    centerings: tuple[CenteringKind, ...]
    estimates: np.ndarray

    @property
    def rows(self) -> Iterator[tuple[CenteringKind, int, dict[Similarity, Mapping[str, Any]]]]:
        """Yield every centering and layer with its estimates, `ESTIMATE` by name."""
        for centering, layers in zip(self.centerings, self.estimates, strict=True):
            for layer, row in enumerate(layers):
                named = (dict(zip(ESTIMATE.names or (), estimate.item(), strict=True)) for estimate in row)
                yield centering, layer, dict(zip(get_args(Similarity), named, strict=True))

    def as_dict(self) -> dict[str, Any]:
        """Return every number as JSON-compatible values, and the verdict of `judge` on every property."""
        counts = {name: getattr(self, name) for name in ("model", "texts", "words", "truncated", "empty")}
        rows = [{"centering": centering, "layer": layer, **estimates} for centering, layer, estimates in self.rows]
        verdicts = [
            {"centering": centering, "property": PROPERTIES[similarity], "holds": holds, "evidence": evidence}
            for centering, estimates in zip(self.centerings, self.estimates, strict=True)
            for similarity, means in zip(get_args(Similarity), estimates["mean"].T, strict=True)
            for holds, evidence in [judge(similarity, means)]
        ]
        return {**counts, "rows": rows, "verdicts": verdicts}


def diagnose(
    model: str,
    texts: Sequence[str],
    options: RunOptions,
    *,
    pairs: int = PAIRS,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Diagnosis:
    """Measure the similarity of words in every layer of a model, under every centering.

    A word is a token that is not special. Means are over all words of the sentence, the batch (32 texts in order) or
    the corpus.
    ``background`` is measured if there is a packaged mean vector for the model. All centerings and layers use the same
    `pairs`: all there are, or that many drawn at random.
    """
    backend = _load(model, options, "none")
    encoder: Encoder = backend.model
    with encoder.lock, torch.inference_mode(), exact_arithmetic():
        tokens = _tokenise(encoder, texts)
        word_ids = [text.ids[text.special == 0] for text in tokens]
        ids, text = np.concatenate(word_ids), np.repeat(np.arange(len(word_ids)), list(map(len, word_ids)))  # (W,)
        words = ids, text
        rng, unknown = np.random.default_rng(seed), encoder.tokenizer.unk_token_id
        drawn = {similarity: pair_words(similarity, words, unknown, pairs, rng) for similarity in get_args(Similarity)}
        if undefined := ", ".join(similarity for similarity, (first, *_) in drawn.items() if len(first) == 0):
            warn(f"undefined, because no two words can be compared: {undefined}; use more or longer texts.")
        sampled = np.unique(np.concatenate([np.r_[first, second] for first, second, *_ in drawn.values()]))
        layers = _read_layers(encoder, tokens, (text, sampled), options.batch_tokens, progress)
    with contextlib.suppress(ModelError):
        for background in _load(model, options, "background").backgrounds:
            for (_, means), mean in zip(layers, background.content["none"], strict=True):
                means["background"] = mean.expand(len(sampled), -1)
    centerings, estimates = tuple(layers[0][1]), _measure(layers, sampled, list(drawn.values()))
    name = f"{backend.files.name}@{backend.files.fingerprint}"
    used, truncated = len(tokens), sum(text.truncated for text in tokens)
    return Diagnosis(name, used, len(ids), truncated, len(texts) - used, centerings, estimates)


def _tokenise(encoder: Encoder, texts: Sequence[str]) -> list[TextTokens]:
    """Return the tokens of texts that have a word."""
    tokens_of_texts = tokenise(encoder.tokenizer, texts, encoder.limit, drop_unknown=encoder.static)
    tokens = [text for text in tokens_of_texts if (text.special == 0).any()]
    if len(tokens) < 2:
        hint = "use 2 texts or more, in a language that the model knows: words of different texts are compared"
        raise InputError(f"texts with a word: {len(tokens)} of {len(texts)}; {hint}.")
    warn_about_small_samples({"": len(tokens)})
    if empty := len(texts) - len(tokens):
        warn(f"texts without a word, left out: {empty}.")
    return tokens


def _measure(layers: Sequence[LayerState], sampled: np.ndarray, drawn: Sequence[WordPairs]) -> np.ndarray:
    """Return the estimates by centering, layer and similarity."""
    estimates = np.zeros((len(layers[0][1]), len(layers), len(drawn)), dtype=ESTIMATE)
    for k, (vectors, means) in enumerate(layers):
        for c, (centering, mean) in enumerate(means.items()):
            directions = _directions(vectors, centering, mean)
            for s, (first, second, weight, complete) in enumerate(drawn):
                x, y = (directions[np.searchsorted(sampled, places)] for places in (first, second))
                estimates[c, k, s] = _estimate(np.einsum("pd,pd->p", x, y), weight, complete=complete)
    return estimates


def _load(model: str, options: RunOptions, centering: CenteringKind) -> TokenAlignmentBackend:
    return TokenAlignmentBackend(make_spec(MetricName.SBERT, model=model, layer=0, centering=centering), options)


def judge(similarity: Similarity, means: np.ndarray) -> Verdict:
    """Decide from the means per layer whether a similarity's property (TWMD paper, section 5) holds.

    1. Zero expected similarity: the mean of random words is within `NEGLIGIBLE` of zero in every layer.
    2. Decreasing self-similarity: it is lower in the last layer than in the first by more than `NEGLIGIBLE`, and its
       rank correlation with the layer's number is at most -`TREND`.
    3. Increasing intra-similarity: likewise, with the opposite sign.

    The paper states the properties in words ("approximately", "in higher layers"); the bounds are ours. A property is
    undefined if its similarity is undefined in some layer. Properties 2 and 3 need at least three layers.
    """
    if np.isnan(means).any():
        return None, f"undefined in {int(np.isnan(means).sum())} of {len(means)} layers"
    if similarity == "random":
        worst = int(np.abs(means).argmax())
        evidence = f"farthest from zero in layer {worst}: {means[worst]:.3f}; allowed {NEGLIGIBLE}"
        return bool(abs(means[worst]) <= NEGLIGIBLE), evidence
    if len(means) < MIN_LAYERS:
        return None, f"undefined: {len(means)} layers, {MIN_LAYERS} are needed"
    sign = 1 if similarity == "intra" else -1
    change, ends = float(means[-1] - means[0]), f"from {means[0]:.3f} to {means[-1]:.3f}"
    if np.ptp(means) == 0:
        return False, f"{ends}: the same in every layer"
    trend = float(stats.spearmanr(np.arange(len(means)), means).statistic)
    expected = f"expected a change beyond {sign * NEGLIGIBLE} and {sign * TREND}"
    holds = sign * change > NEGLIGIBLE and sign * trend >= TREND
    return holds, f"{ends}; rank correlation with the layer {trend:.2f}; {expected}"


def pair_words(
    similarity: Similarity,
    words: tuple[np.ndarray, np.ndarray],
    unknown: int | None,
    pairs: int,
    rng: np.random.Generator,
) -> WordPairs:
    """Pair the words of a corpus: all pairs if there are at most `pairs`, otherwise that many, drawn with replacement.

    `words` are every word's token id and text, shape (W,) each. In ``self``, an `unknown` token has no partner.
    """
    ids, text = words
    places = np.arange(len(ids))
    if similarity == "random":
        return _pair(places, np.zeros_like(places), places, pairs, rng)
    if similarity == "intra":
        return _pair(places, text, ids, pairs, rng)
    known = places if unknown is None else places[ids != unknown]
    numbers: dict[bytes, int] = {}  # texts with equal tokens are one sentence
    sentences = np.split(ids, np.flatnonzero(np.diff(text)) + 1)
    sentence = np.array([numbers.setdefault(tokens.tobytes(), len(numbers)) for tokens in sentences])
    return _pair(known, ids[known], sentence[np.unique(text, return_inverse=True)[1]][known], pairs, rng)


def _pair(places: np.ndarray, stratum: np.ndarray, label: np.ndarray, most: int, rng: np.random.Generator) -> WordPairs:
    """Pair positions in the same stratum with different labels. Every stratum with such a pair has equal weight.

    All ordered pairs have a number, in the order of strata and labels, so drawing a pair is drawing a number.
    """
    order = np.lexsort((label, stratum))
    places, stratum, label = places[order], stratum[order], label[order]
    stratum_start, stratum_stop = _runs(stratum[:, None])
    label_start, label_stop = _runs(np.stack([stratum, label], axis=1))
    others = (stratum_stop - stratum_start) - (label_stop - label_start)  # partners of every position
    ends = np.cumsum(others)
    starts = np.unique(stratum_start[others > 0])  # of the strata that count
    sizes = ends[stratum_stop[starts] - 1] - (ends - others)[starts]  # ordered pairs of each
    complete = int(sizes.sum()) <= 2 * most
    if complete:
        number = np.arange(int(sizes.sum()))
    else:
        drawn = rng.integers(len(starts), size=most)
        number = (ends - others)[starts][drawn] + rng.integers(sizes[drawn])
    first = np.searchsorted(ends, number, side="right")
    second = stratum_start[first] + number - (ends - others)[first]
    second = np.where(second < label_start[first], second, second + (label_stop - label_start)[first])
    weight = np.full(len(first), 1 / max(len(first), 1))
    if complete:
        once = first < second
        first, second = first[once], second[once]
        weight = 2 / (len(starts) * sizes[np.searchsorted(starts, stratum_start[first])])
    return places[first], places[second], weight, complete


def _runs(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the start and stop of the run of equal rows around each row; shape (W, keys) to two of (W,)."""
    new = np.r_[True, (keys[1:] != keys[:-1]).any(axis=1)][: len(keys)]
    starts = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    return starts[run], np.r_[starts[1:], len(keys)][run]


def _read_layers(
    encoder: Encoder,
    tokens: Sequence[TextTokens],
    words: tuple[np.ndarray, np.ndarray],
    batch_tokens: int | None,
    progress: Progress | None,
) -> list[LayerState]:
    """Encode every text once, in pieces; return every hidden state, embeddings first, on the CPU.

    `words` are every word's text, shape (W,), and the positions of the words to return, ascending, shape (U,).
    """
    layers, (text, sampled) = range(encoder.depth + 1), words
    expect(progress, len(tokens))
    chosen = np.unique(text[sampled])
    parts: list[list[tuple[torch.Tensor, ...]]] = [[] for _ in layers]  # vectors, sentence means, batch means
    corpus: dict[int, torch.Tensor] = {}
    lengths = np.array([len(text.ids) for text in tokens])
    for start, stop in _pieces(lengths, CHUNK_TOKENS // len(layers)):
        encoded = encoder.encode(tokens[start:stop], layers, batch_tokens=batch_tokens, progress=progress)
        is_word = encoded.special <= SPECIAL_LEVEL["none"]
        is_here = (text[sampled] >= start) & (text[sampled] < stop)
        places = torch.from_numpy(sampled[is_here] - np.searchsorted(text, start))
        texts = torch.from_numpy(chosen[(chosen >= start) & (chosen < stop)] - start)
        every = torch.arange(stop - start, device=encoded.lengths.device)
        once = torch.ones_like(every)
        for k in layers:
            layer = TokenVectors(encoded.layers[k], encoded.lengths).select(is_word)
            sentences = means_of_groups(sum_groups(layer, every, once, len(every))).cpu()[texts]
            batches = means_of_groups(sum_groups(layer, every // BATCH_TEXTS, once, -(-len(every) // BATCH_TEXTS)))
            parts[k].append((layer.vectors.cpu()[places], sentences, batches.cpu()))
            sums = sum_groups(layer, torch.zeros_like(every), once, 1)
            corpus[k] = corpus[k] + sums if k in corpus else sums
    groups: dict[CenteringKind, torch.Tensor] = {
        "sentence": torch.from_numpy(np.searchsorted(chosen, text[sampled])),
        "batch": torch.from_numpy(text[sampled] // BATCH_TEXTS),
        "corpus": torch.zeros(len(sampled), dtype=torch.int64),
    }
    states = []
    for k in layers:
        vectors, *means = (torch.cat(tensors) for tensors in zip(*parts[k], strict=True))
        subtracted: dict[CenteringKind, torch.Tensor | None] = {"none": None, "dimension": None}
        for (centering, group), mean in zip(groups.items(), (*means, means_of_groups(corpus[k]).cpu()), strict=True):
            subtracted[centering] = mean[group]
        states.append((vectors, subtracted))
        parts[k].clear()
    return states


def _pieces(lengths: np.ndarray, max_tokens: int) -> Iterator[tuple[int, int]]:
    """Cut the texts into runs of whole batches with at most `max_tokens` tokens."""
    start = 0
    for stop in [*range(BATCH_TEXTS, len(lengths), BATCH_TEXTS), len(lengths)]:
        if stop == len(lengths) or lengths[start : stop + BATCH_TEXTS].sum() > max_tokens:
            yield start, stop
            start = stop


def _directions(vectors: torch.Tensor, centering: CenteringKind, means: torch.Tensor | None) -> np.ndarray:
    """Return vectors centered and scaled to norm 1, NaN if centering leaves nothing; shape (U, D)."""
    number = len(vectors)
    words = TokenVectors(vectors, torch.ones(number, dtype=torch.int64), positions=torch.arange(number))
    # The sentence's other words are not available here, so its mean is subtracted like a batch's.
    kind = "batch" if centering == "sentence" else centering
    (centered,) = center([words], kind, "unit", None if means is None else [means])
    directions = np.full(vectors.shape, np.nan, dtype=np.float32)
    directions[centered.positions] = centered.vectors
    return directions


def _estimate(cosines: np.ndarray, weight: np.ndarray, *, complete: bool) -> tuple[float, float, int, int]:
    """Return the fields of `ESTIMATE`."""
    defined = ~np.isnan(cosines)
    values, left_out = cosines[defined].astype(np.float64), int((~defined).sum())
    n = len(values)
    if n == 0:
        return np.nan, np.nan, 0, left_out
    drawn = float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
    return float(np.average(values, weights=weight[defined])), 0.0 if complete else drawn, n, left_out
