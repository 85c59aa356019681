"""What is kept of every hidden state of a corpus: the vectors of some of its words, and the means that centerings
subtract.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from twmd_registry.encode.encoder import Encoder
from twmd_registry.encode.mean_vectors import SPECIAL_LEVEL, MeanVectors
from twmd_registry.encode.tokenization import TokenIds
from twmd_registry.engine.centering import GroupMeans, GroupSums, center, sum_groups
from twmd_registry.engine.pipeline import CHUNK_TOKENS
from twmd_registry.metaeval.word_pairs import CorpusWords
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import Centering, Special, Vectors
from twmd_registry.tensors import TokenVectors

BATCH_TEXTS = 32
"""The paper's batch."""


class LayerWords(NamedTuple):
    """What is kept of one hidden state.

    Attributes:
        vectors: Of the sampled words, uncentered; shape (U, D).
        means: What every centering subtracts from them; None where that follows from a vector itself.
    """

    vectors: Tensor
    means: dict[Centering, GroupMeans | None]


class _LayerShare(NamedTuple):
    """What some texts contribute to a `LayerWords`: vectors (U of them, D), sentence means (S of them, D), batch means
    (G of them, D), sums.
    """

    vectors: Tensor
    sentences: Tensor
    batches: Tensor
    corpus: GroupSums


def read_layers(
    encoder: Encoder,
    tokens: TokenIds,
    words: CorpusWords,
    sampled: np.ndarray,
    *,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> list[LayerWords]:
    """Encode every text once, piece by piece, and keep of every hidden state what is wanted of it.

    Args:
        encoder: The model.
        tokens: Texts that have a word each.
        words: Their words.
        sampled: Places of the wanted ones, ascending; shape (U,).
        batch_tokens: Most padded tokens in the encoder at once.
        progress: Called with the number of texts encoded.

    Returns:
        By hidden state, the embeddings first; on the CPU. U vectors and at most as many sentence means are in memory
        for each.

    Raises:
        ModelError: Out of memory with a single text, or vectors that are not finite.
    """
    layers = range(encoder.depth + 1)
    expect(progress, len(tokens.lengths))
    parts: dict[int, list[_LayerShare]] = {k: [] for k in layers}
    chosen = np.unique(words.text[sampled])
    for start, stop in _pieces(tokens.lengths, CHUNK_TOKENS // len(layers)):
        encoded = encoder.encode(
            tokens.select(np.arange(start, stop)), layers, batch_tokens=batch_tokens, progress=progress
        )
        first, end = np.searchsorted(words.text, [start, stop])
        places = sampled[(sampled >= first) & (sampled < end)] - first
        texts = chosen[(chosen >= start) & (chosen < stop)] - start
        own = encoded.special <= SPECIAL_LEVEL[Special.NONE]
        for k in layers:
            parts[k].append(_part(TokenVectors(encoded.layers[k], encoded.lengths).select(own), places, texts))
    groups = {
        Centering.SENTENCE: torch.from_numpy(np.searchsorted(chosen, words.text[sampled])),
        Centering.BATCH: torch.from_numpy(words.text[sampled] // BATCH_TEXTS),
        Centering.CORPUS: torch.zeros(len(sampled), dtype=torch.int64),
    }
    return [_join(parts.pop(k), groups) for k in layers]


def _pieces(lengths: np.ndarray, most_tokens: int) -> Iterator[tuple[int, int]]:
    """Cut the texts into runs of whole batches with about so many tokens at most."""
    start = 0
    for stop in [*range(BATCH_TEXTS, len(lengths), BATCH_TEXTS), len(lengths)]:
        if stop == len(lengths) or lengths[start : stop + BATCH_TEXTS].sum() > most_tokens:
            yield start, stop
            start = stop


def _part(tokens: TokenVectors, words: np.ndarray, texts: np.ndarray) -> _LayerShare:
    """What some texts contribute, of which some words and sentence means are wanted."""
    every = torch.arange(len(tokens.lengths), device=tokens.lengths.device)
    once = torch.ones_like(every)
    sentences = sum_groups(tokens, every, once, len(every)).mean()[torch.from_numpy(texts).to(every.device)]
    batches = sum_groups(tokens, every // BATCH_TEXTS, once, -(-len(every) // BATCH_TEXTS)).mean()
    corpus = sum_groups(tokens, torch.zeros_like(every), once, 1)
    vectors = tokens.vectors[torch.from_numpy(words).to(every.device)]
    return _LayerShare(vectors.cpu(), sentences.cpu(), batches.cpu(), GroupSums(corpus.sums.cpu(), corpus.counts.cpu()))


def _join(parts: Sequence[_LayerShare], groups: Mapping[Centering, Tensor]) -> LayerWords:
    corpus = parts[0].corpus
    for part in parts[1:]:
        corpus = corpus.plus(part.corpus)
    found = {
        Centering.SENTENCE: torch.cat([part.sentences for part in parts]),
        Centering.BATCH: torch.cat([part.batches for part in parts]),
        Centering.CORPUS: corpus.mean(),
    }
    means: dict[Centering, GroupMeans | None] = {Centering.NONE: None, Centering.DIMENSION: None}
    return LayerWords(
        torch.cat([part.vectors for part in parts]),
        means | {one: GroupMeans(found[one], group) for one, group in groups.items()},
    )


def with_background(layers: Sequence[LayerWords], background: MeanVectors) -> list[LayerWords]:
    """Let background centering be one of the centerings."""
    mean = background.means[Special.NONE]
    everyone = torch.zeros(len(layers[0].vectors), dtype=torch.int64)
    return [
        one._replace(means=one.means | {Centering.BACKGROUND: GroupMeans(mean[k][None, :], everyone)})
        for k, one in enumerate(layers)
    ]


def directions(layer: LayerWords, centering: Centering) -> np.ndarray:
    """The wanted words' vectors, centered and of length one; NaN for one of which centering leaves nothing; shape (U,
    D).
    """
    number = len(layer.vectors)
    words = TokenVectors(layer.vectors, torch.ones(number, dtype=torch.int64), places=torch.arange(number))
    means = layer.means[centering]
    # Sentences are groups here like any other: the rest of their words is not at hand.
    kind = Centering.BATCH if centering is Centering.SENTENCE else centering
    (centered,) = center([words], kind, Vectors.UNIT, None if means is None else [means])
    directions = np.full(layer.vectors.shape, np.nan, dtype=np.float32)
    directions[centered.places] = centered.vectors
    return directions
