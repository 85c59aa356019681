"""A whole score in plain numpy, float64, one pair at a time: from a model's hidden states of single texts to precision,
recall and F1.

Written from the papers and from the documentation of the keys. A setting is a plain dict of keys and values as in a
signature; a key that is left out does nothing. Only the model comes from outside: its tokens of a text, and its hidden
states of a sequence of tokens.

A blank reference next to another is ignored. Where the papers are silent, these are the rules: an empty text adds no
token to a mean, and is a document of its special tokens for idf; means do not weigh tokens by idf; windows all have the
same size, so the last one begins where that makes it end with the text; an n-gram has the sum of its tokens' weights,
or 1 if tokens have no idf or all have idf 0; a text with nothing left, or whose C(X, X) is not positive, scores 1
against the same text and 0 against any other.
"""

from __future__ import annotations

import hashlib
import math
import string
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from tests.oracles import family, movers

SELF_NORMALISED = {"twmd", "trwmd", "wordset_cka", "sbert"}
"""Metrics that Eq. 1 divides; by the others a text gets 1 against itself anyway."""
NOTHING = 1e-6
"""A difference or mean of vectors that is so much shorter than they are is rounding; so is a C(X, X) so much smaller
than any S.
"""


class Tokens(NamedTuple):
    """A text as a WordPiece tokenizer reads it; `special` marks the tokens that it adds, `written` is the text of each,
    normalised."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    special: tuple[bool, ...]
    written: tuple[str, ...]

    def take(self, places: Sequence[int]) -> Tokens:
        return Tokens._make(tuple(column[t] for t in places) for column in self)


@dataclass(frozen=True)
class Model:
    """An encoder; `products` are the inner products of two sets of vectors."""

    tokenize: Callable[[str], Tokens]
    hidden: Callable[[tuple[int, ...]], np.ndarray]  # of token ids; shape (layers + 1, tokens, dimensions)
    limit: int  # the maximum number of tokens
    unknown: str  # the piece for out-of-vocabulary text
    products: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda x, y: x @ y.T


@dataclass(frozen=True)
class Fitted:
    """Values fitted on other texts."""

    stopwords: Sequence[tuple[str, ...]] = ()  # Each as the tokenizer's pieces of it
    stop_pieces: Sequence[str] = ()  # The same words as they are written
    background: Sequence[str] = ()  # Texts whose mean is subtracted
    documents: Sequence[str] = ()  # Texts over which ``idf=background`` counts
    baseline: tuple[float, ...] | None = None  # Of unrelated texts: precision, recall and F1, or the score


class Units(NamedTuple):
    """The compared units of a text: vectors (n, d), weights (n,), and which of them count in averages (the others are
    only partners).
    """

    vectors: np.ndarray
    weights: np.ndarray
    counted: np.ndarray


class Score(NamedTuple):
    """One number per segment; a one-sided metric has its score in all three."""

    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray


def score(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    keys: dict[str, object],
    model: Model,
    fitted: Fitted,
) -> Score:
    """Score every segment."""
    present = [[text for text in texts if text.strip()] or list(texts[:1]) for texts in references]
    return _Recomputation(predictions, present, keys, model, fitted).score()


@dataclass
class _Recomputation:
    predictions: Sequence[str]
    references: Sequence[Sequence[str]]
    keys: dict[str, object]
    model: Model
    fitted: Fitted

    def __post_init__(self) -> None:
        self.read = cache(lambda text: self._read(text, self.key("truncation", "cut")))
        self.selected = cache(self._selected)
        self.mean = cache(self._mean)
        self.document_frequency = cache(self._document_frequency)
        self.units = cache(self._units)
        self.own = cache(self._own)

    def key(self, name: str, otherwise: object = None) -> str:
        return str(self.keys.get(name, otherwise))

    def score(self) -> Score:
        rows = []
        padded = iter(self.padded())
        for segment, (prediction, references) in enumerate(zip(self.predictions, self.references, strict=True)):
            batch = segment // int(self.key("centering_size")) if self.key("centering") == "batch" else 0
            results = np.array([self.pair(prediction, reference, batch, next(padded)) for reference in references])
            rows.append(results.max(axis=0) if self.key("multiref", "max") == "max" else results.mean(axis=0))
        found = np.array(rows)
        if self.fitted.baseline is not None:
            b = np.array(self.fitted.baseline)
            found = (found - b) / (1 - b)
        return Score(found[:, 0], found[:, 1], found[:, 2])

    def padded(self) -> list[tuple[bool, bool]]:
        """Whether the prediction and the reference of every pair is shorter than the longest of its batch of pairs."""
        texts = zip(self.predictions, self.references, strict=True)
        sizes = [
            [len(self.read(text)[0].ids) for text in (prediction, reference)]
            for prediction, references in texts
            for reference in references
        ]
        if self.key("padding", "none") == "none":
            return [(False, False)] * len(sizes)
        step = int(self.key("padding"))
        longest = [np.max(sizes[i // step * step : i // step * step + step], axis=0) for i in range(len(sizes))]
        return [(x < most_x, y < most_y) for (x, y), (most_x, most_y) in zip(sizes, longest, strict=True)]

    # Texts to vectors

    def _read(self, text: str, truncation: str) -> tuple[Tokens, np.ndarray]:
        """Return a text's tokens as far as they are read, and their hidden states."""
        tokens = self.model.tokenize(text)
        kind, _, sizes = truncation.partition(":")
        size = int(sizes.partition("/")[0] or self.model.limit)
        text_tokens = [t for t, special in enumerate(tokens.special) if not special]
        room = size - (len(tokens.ids) - len(text_tokens))
        if kind == "cut" or len(text_tokens) <= room:
            gone = set(text_tokens[room:])
            kept = [t for t in range(len(tokens.ids)) if t not in gone]
            tokens = tokens.take(kept)
            return tokens, self.model.hidden(tokens.ids)
        stride = int(sizes.partition("/")[2])
        before, after = list(range(text_tokens[0])), list(range(text_tokens[-1] + 1, len(tokens.ids)))
        windows = [
            before + text_tokens[start : start + room] + after
            for start in [*range(0, len(text_tokens) - room, stride), len(text_tokens) - room]
        ]
        states = [self.model.hidden(tuple(tokens.ids[t] for t in window)) for window in windows]
        means = [
            np.mean(
                [state[:, window.index(t)] for window, state in zip(windows, states, strict=True) if t in window],
                axis=0,
            )
            for t in range(len(tokens.ids))
        ]
        return tokens, np.stack(means, axis=1)

    def empty(self, text: str) -> bool:
        return all(self.model.tokenize(text).special)

    def _selected(self, text: str) -> tuple[list[int], list[bool]]:
        """Return the positions of the tokens to compare, and which of them count."""
        tokens, _ = self.read(text)
        special = self.key("special", "none")
        out = self.left_out(tokens)
        places, counted = [], []
        for t, is_special in enumerate(tokens.special):
            if is_special and not (special in {"all", "partners"} or (special == "cls" and t == 0)):
                continue
            if t not in out:
                places.append(t)
                counted.append(not (is_special and special == "partners"))
        return places, counted

    def left_out(self, tokens: Tokens) -> set[int]:
        words: list[list[int]] = []
        for t, piece in enumerate(tokens.pieces):
            if tokens.special[t]:
                continue
            if piece.startswith("##") and words:
                words[-1].append(t)
            else:
                words.append([t])
        out = set[int]()
        if self.key("subwords") == "drop":
            out |= {t for word in words for t in word[1:]}
        if self.key("punctuation") == "drop":
            out |= {t for word in words for t in word if all(map(is_punctuation, bare(tokens.pieces[t])))}
        if self.key("punctuation") == "drop-ascii":
            out |= {t for word in words for t in word if bare(tokens.pieces[t]) in set(string.punctuation)}
        if self.key("stopword_unit", "word") == "piece":
            return out | {t for word in words for t in word if tokens.pieces[t] in self.fitted.stop_pieces}
        written = ["".join(bare(tokens.pieces[t]) for t in word).lower() for word in words]
        for phrase in self.fitted.stopwords if self.key("stopwords", "none") != "none" else ():
            kept = [] if self.model.unknown in phrase else _words(phrase)
            for start in range(len(words) - len(kept) + 1 if kept else 0):
                if written[start : start + len(kept)] == kept:
                    out |= {t for word in words[start : start + len(kept)] for t in word}
        return out

    def layers(self) -> list[int]:
        text = self.key("layer")
        depth = len(self.read(self.predictions[0])[1]) - 1
        if text.startswith("last:"):
            return list(range(depth - int(text[5:]) + 1, depth + 1))
        found = list[int]()
        for part in text.split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
        return found

    def population(self, side: str, batch: int) -> list[str]:
        """Return the texts whose mean is subtracted, as often as they occur."""
        size = int(self.key("centering_size")) if self.key("centering") == "batch" else len(self.predictions)
        segments = slice(batch * size, (batch + 1) * size)
        hypotheses = list(self.predictions[segments])
        references = [text for texts in self.references[segments] for text in texts]
        if self.key("centering_side", "joint") == "joint":
            return hypotheses + references
        return hypotheses if side == "hypothesis" else references

    def _mean(self, layer: int, side: str, batch: int) -> np.ndarray:
        """Return the mean token vector of a centering group."""
        if self.key("centering") == "background":
            return self.background_mean(layer)
        rows = list[np.ndarray]()
        for text in self.population(side, batch):
            _, states = self.read(text)
            places, counted = self.selected(text)
            rows += [
                states[layer, t] for t, counts in zip(places, counted, strict=True) if counts and not self.empty(text)
            ]
        return np.mean(rows, axis=0) if rows else np.zeros(self.read(self.predictions[0])[1].shape[2])

    def background_mean(self, layer: int) -> np.ndarray:
        """Return the mean over whole texts; the setting only selects special tokens."""
        rows = list[np.ndarray]()
        for text in self.fitted.background:
            tokens, states = self._read(text, "cut")
            special = self.key("special", "none")
            rows += [
                states[layer, t]
                for t, is_special in enumerate(tokens.special)
                if not is_special or special == "all" or (special == "cls" and t == 0)
            ]
        return np.asarray(np.mean(rows, axis=0))

    def centered(self, text: str, layer: int, side: str, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a text's vectors in one layer, and which of them have a direction."""
        vectors = self.read(text)[1][layer]
        places, counted = self.selected(text)
        vectors = vectors[places]
        kind = self.key("centering", "none").partition(":")[0]
        if kind == "none" or not len(vectors):
            mean = np.zeros_like(vectors)
        elif kind == "dimension":
            mean = np.repeat(vectors.mean(axis=1, keepdims=True), vectors.shape[1], axis=1)
        elif kind == "sentence":
            mean = np.repeat(vectors[counted].mean(axis=0, keepdims=True), len(vectors), axis=0)
        else:
            mean = np.repeat(self.mean(layer, side, batch)[None], len(vectors), axis=0)
        centered = vectors - mean
        return centered, _norms(centered) > NOTHING * _norms(mean)

    def _document_frequency(self, documents: str) -> list[set[int]]:
        texts = {
            "hypotheses": self.predictions,
            "references": [text for texts in self.references for text in texts],
            "background": self.fitted.documents,
        }[documents]
        held = [(self._read(text, "cut") if documents == "background" else self.read(text))[0] for text in texts]
        return [
            {t for t, piece in zip(tokens.ids, tokens.pieces, strict=True) if not self.apart(piece)} for tokens in held
        ]

    def apart(self, piece: str) -> bool:
        """Return whether a token represents out-of-vocabulary text and is compared by that text."""
        return piece == self.model.unknown and self.key("unknown", "keep") == "apart"

    def weights(self, text: str, side: str) -> list[float] | None:
        """Return the idf of the tokens to compare; none if all count the same."""
        kind = self.key("idf", "none").partition(":")[0]
        if kind == "none":
            return None
        documents = {
            "references": "references",
            "background": "background",
            "corpus": "hypotheses" if side == "hypothesis" else "references",
        }[kind]
        held = self.document_frequency(documents)
        ids = self.read(text)[0].ids
        places, counted = self.selected(text)
        found = [movers.idf(held, ids[t]) for t in places]
        return found if any(w > 0 for w, counts in zip(found, counted, strict=True) if counts) else None

    def _units(self, text: str, side: str, batch: int) -> Units:
        counted = np.array(self.selected(text)[1], dtype=bool)
        raw = self.key("vectors", "unit") == "raw"
        found = [self.centered(text, layer, side, batch) for layer in self.layers()]
        keep = np.all([directed for _, directed in found], axis=0)
        if self.empty(text) or not keep.any():
            return Units(np.zeros((0, 1)), np.zeros(0), np.zeros(0, dtype=bool))
        stacked = np.stack(
            [vectors[keep] if raw else _unit(vectors[keep]) for vectors, _ in found], axis=1
        )  # (tokens, layers, dimensions)
        vectors = np.array([aggregate(token, self.key("aggregation", "single")) for token in stacked]).reshape(
            len(stacked), -1
        )
        tokens = self.read(text)[0].take([t for t, kept in zip(self.selected(text)[0], keep, strict=True) if kept])
        for t, (piece, is_special, written) in enumerate(
            zip(tokens.pieces, tokens.special, tokens.written, strict=True)
        ):
            if self.apart(piece) and not is_special:
                vectors[t] = np.linalg.norm(vectors[t]) * direction(written, vectors.shape[1])
        idf = self.weights(text, side)
        weights = None if idf is None else [w for w, kept in zip(idf, keep, strict=True) if kept]
        counted = counted[keep]
        n = self.key("ngram", 1)
        if n != "1":
            longest = _norms(vectors).max()
            vectors, totals = movers.ngrams(vectors, weights, len(vectors) if n == "sentence" else int(n))
            weights = None if weights is None else totals
            counted = np.ones(len(vectors), dtype=bool)
            directed = _norms(vectors) > NOTHING * longest
            vectors, counted = vectors[directed], counted[directed]
            weights = None if weights is None else list(np.array(weights)[directed])
        return Units(
            vectors if raw else _unit(vectors), np.ones(len(vectors)) if weights is None else np.array(weights), counted
        )

    # Vectors to scores

    def pair(
        self, prediction: str, reference: str, batch: int, padded: tuple[bool, bool]
    ) -> tuple[float, float, float]:
        """Precision, recall and F1."""
        x, y = self.units(prediction, "hypothesis", batch), self.units(reference, "reference", batch)
        metric = self.key("metric")
        empty = self.empty(prediction), self.empty(reference)
        if not x.counted.any() or not y.counted.any():
            same = all(empty) or (not any(empty) and prediction == reference)
            return (1.0, 1.0, 1.0) if same else (0.0, 0.0, 0.0)
        p, r = self.c(x, y, padded=padded[1]), self.c(y, x, padded=padded[0])
        as_bert_score = self.key("special", "none") == "partners" and p + r != 0
        found = (p, r, 2 * p * r / (p + r) if as_bert_score else family.f1(p, r))
        if metric not in SELF_NORMALISED or self.key("normalize", "yes") == "no":
            return found
        selves = [self.own(text, side, batch) for text, side in ((prediction, "hypothesis"), (reference, "reference"))]
        if min(selves) > 0:
            p, r, f = (family.normalised(c, selves[0], selves[1]) for c in found)
            return p, r, f
        return (1.0, 1.0, 1.0) if prediction == reference else (0.0, 0.0, 0.0)

    def _own(self, text: str, side: str, batch: int) -> float:
        """C(X, X); 0 where it is negative (entropic objectives with small weights) or rounding."""
        x = self.units(text, side, batch)
        found = self.c(x, x)
        return found if found > NOTHING * (x.vectors**2).sum(axis=1).max() else 0.0

    def c(self, x: Units, y: Units, *, padded: bool = False) -> float:
        """C(X, Y), hypothesis side; the similarity to padding is 0."""
        s = self.model.products(x.vectors, y.vectors)
        a, b = x.weights * x.counted, y.weights
        if padded:
            s, b = np.c_[s, np.zeros(len(s))], np.r_[b, 0.0]
        if self.key("metric") == "moverscore":
            distance = movers.emd(movers.costs(x.vectors, y.vectors, self.key("distance", "similarity")), a, b)
            return movers.score(distance, self.key("transform", "linear"))
        how = {name: self.keys.get(name) for name in ("temperature", "iterations", "objective")}
        return family.c(self.key("metric"), s, a, b, **how)


def bare(piece: str) -> str:
    return piece.removeprefix("##")


def is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def direction(written: str, width: int) -> np.ndarray:
    """Return the vector of signs that represents a string: the bits of SHAKE-256 of its BLAKE2b hash."""
    code = bytearray(hashlib.blake2b(written.strip().encode(), digest_size=8).digest())
    code[-1] |= 1  # no string has the number 0
    digest = hashlib.shake_256(bytes(code)).digest((width + 7) // 8)
    signs = [1.0 if digest[i // 8] >> (7 - i % 8) & 1 else -1.0 for i in range(width)]
    return np.array(signs) / math.sqrt(width)


def aggregate(layers: np.ndarray, how: str) -> np.ndarray:
    """Return one token's vectors (L, D) as one."""
    kind, _, rest = how.partition(":")
    if kind == "pmeans":
        return np.concatenate([movers.power_mean(layers, power) for power in rest.split(",")])
    if kind == "routing":
        return movers.routing(layers, rest)
    return layers.mean(axis=0) if kind == "mean" else layers.ravel()


def _words(pieces: Sequence[str]) -> list[str]:
    words = list[str]()
    for piece in pieces:
        if piece.startswith("##") and words:
            words[-1] += bare(piece)
        else:
            words.append(bare(piece))
    return [word.lower() for word in words]


def _norms(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(vectors, axis=1))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / _norms(vectors)[:, None])
