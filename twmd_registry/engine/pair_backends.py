"""Score pairs of whole texts by the similarity of sentence vectors or with regression models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast, get_args

import numpy as np
import torch

from twmd_registry.encode.encoder import tokenise
from twmd_registry.engine.backend import Backend, PairScores, Scores
from twmd_registry.engine.pairs import Pairs
from twmd_registry.engine.pipeline import CorpusSums
from twmd_registry.errors import ModelError, SpecError
from twmd_registry.messages import menu, warn
from twmd_registry.models.files import ModelFiles, find_model, find_sentence_model
from twmd_registry.models.inference import exact_arithmetic
from twmd_registry.models.regressor import fit_pairs, is_siamese, load_regressor, trained_activation
from twmd_registry.models.sentence import SIMILARITIES, SentenceEncoder
from twmd_registry.progress import Stage
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.names import NO_PROMPT, First
from twmd_registry.registry.pipeline import pipeline_settings
from twmd_registry.tensors import TextFacts, TextTokens

CHUNK_LETTERS, LETTERS_OF_PAIR = 1_000_000, 100
"""Maximum characters of the pairs in a chunk, and the overhead of a pair in characters."""


class _Chunk(NamedTuple):
    """Distinct pairs of texts that are scored together."""

    pairs: np.ndarray  # Indices of both texts of every pair; shape (pairs, 2)
    texts: dict[int, str]  # By index
    tokens: dict[int, TextTokens]  # Of the texts, by index
    vectors: dict[int, np.ndarray]  # Of texts that this or an earlier chunk encoded, by index


class PairBackend(Backend):
    """Scores each distinct pair of whole texts once, independently of the others, in chunks of bounded size."""

    def score_pairs(self, group: Sequence[Any], pairs: Pairs, stage: Stage, sums: CorpusSums) -> PairScores:
        """Score pairs with every backend of a group; read each distinct pair (for sentence vectors, each text) once."""
        del sums
        orders = sorted({first for backend in group for first in backend.orders})
        numbers = pairs.hyp * np.int64(len(pairs.texts)) + pairs.ref  # encode a pair of texts as one number
        _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        inverse = inverse.astype(np.int32)
        distinct = np.stack([pairs.hyp[first], pairs.ref[first]], axis=1)  # (pairs, 2)
        del numbers, first
        raw = {order: np.zeros(len(distinct)) for order in orders}
        facts, vectors, model = TextFacts.of_unread(len(pairs.texts)), dict[int, np.ndarray](), self.model
        flags = facts.flags
        letters = np.fromiter(map(len, pairs.texts), dtype=np.int32)
        sizes = letters[distinct[:, 0]] + letters[distinct[:, 1]] + LETTERS_OF_PAIR
        part = (np.cumsum(sizes, dtype=np.int64) // CHUNK_LETTERS).astype(np.int32)
        del letters, sizes
        last = np.zeros(len(pairs.texts), dtype=np.int32)  # the last chunk that needs a text
        np.maximum.at(last, distinct.ravel(), np.repeat(part, 2))  # numpy 2.4 broadcasts values wrongly here
        with stage(len(distinct) * len(orders)) as progress:
            for number in np.unique(part).tolist():
                rows = np.flatnonzero(part == number)
                here = np.unique(distinct[rows]).tolist()
                texts = {i: pairs.texts[i] for i in here}
                with model.lock, torch.inference_mode(), exact_arithmetic():
                    tokens = dict(zip(here, self._tokenise(list(texts.values())), strict=True))
                    facts.add(here, list(tokens.values()))
                    full = rows[~flags["empty"][distinct[rows]].any(1)]
                    chunk = _Chunk(distinct[full], texts, tokens, vectors)
                    for order in orders if len(full) else ():
                        raw[order][full], cut = self._predict(chunk, order)
                        flags["truncated"][chunk.pairs[cut]] = True
                for i in here:
                    if last[i] == number:
                        vectors.pop(i, None)
                if progress is not None:
                    progress(len(rows) * len(orders))
        empty = flags["empty"][distinct]  # (pairs, 2)
        scores = [np.where(empty.any(1), empty.all(1), backend.finish(raw))[inverse] for backend in group]
        return PairScores([Scores(of_pairs[None]) for of_pairs in scores], facts)

    def _tokenise(self, texts: Sequence[str]) -> list[TextTokens]:
        """Return the tokens of whole texts."""
        return tokenise(self.model.tokenizer, texts, None)

    def _predict(self, chunk: _Chunk, first: First) -> tuple[np.ndarray, np.ndarray]:
        """Predict one number per pair in an input order, shape (pairs,), and return which texts were cut, shape (pairs,
        2).
        """
        raise NotImplementedError

    def _compare(self, chunk: _Chunk, kept: np.ndarray | None = None) -> np.ndarray:
        """Return the similarities of sentence vectors, shape (pairs,). A text is cut to the number of tokens `kept` for
        its pair, shape (pairs, 2), unless that is 0.
        """
        kept = np.zeros_like(chunk.pairs) if kept is None else kept
        found = dict[tuple[int, int], np.ndarray]()
        for size in np.unique(kept).tolist():
            numbers = np.unique(chunk.pairs[kept == size]).tolist()
            vectors = {} if size else chunk.vectors
            if new := [i for i in numbers if i not in vectors]:
                encoded = self.model.encode(
                    [chunk.texts[i] for i in new],
                    [chunk.tokens[i].cut(size) if size else chunk.tokens[i] for i in new],
                    limit=size or self.spec.truncation.limit,
                    prompt=self.prompt,
                    batch_tokens=self.options.batch_tokens,
                )
                vectors.update(zip(new, encoded, strict=True))
            found.update({(i, size): vectors[i] for i in numbers})
        x, y = (
            np.stack([found[text] for text in zip(numbers, sizes, strict=True)])
            for numbers, sizes in zip(chunk.pairs.T.tolist(), kept.T.tolist(), strict=True)
        )
        similarities: np.ndarray = SIMILARITIES[self.model.similarity](x, y)
        return similarities

    @property
    def prompt(self) -> str | None:
        """The name of the prompt before every text; None without one."""
        return None

    @property
    def orders(self) -> tuple[First, ...]:
        """Which text comes first in each forward pass: one input order, or both."""
        return ("prediction",)

    def finish(self, raw: Mapping[First, np.ndarray]) -> np.ndarray:
        """Return the scores of pairs, shape (pairs,), given the predictions for every input order."""
        return np.asarray(np.mean([raw[first] for first in self.orders], axis=0))


class SentenceBackend(PairBackend):
    """Scores by the similarity of a model's own sentence vectors."""

    load_model = SentenceEncoder
    find_files = staticmethod(find_sentence_model)

    def _complete_spec(self) -> MetricSpec:
        """Complete the specification with the prompt before every text."""
        named, model = self.requested.prompt, self.model
        if named is not None and named != NO_PROMPT and named not in model.prompts:
            choices = menu(named, [*model.prompts, NO_PROMPT])
            raise SpecError(f"model {self.files.label} has no prompt {named!r}; {choices}.")
        applied = named or model.default_prompt
        if applied == NO_PROMPT and model.default_prompt is None:
            applied = None
        return super()._complete_spec().replace(prompt=applied)

    @property
    def prompt(self) -> str | None:
        """The name of the prompt before every text; None without one."""
        return None if self.spec.prompt == NO_PROMPT else self.spec.prompt

    @property
    def scores_empty(self) -> bool:
        """Whether a text without tokens has a score, which requires a similarity from 0 (unrelated) to 1
        (identical).
        """
        return bool(self.model.similarity == "cosine")

    def _tokenise(self, texts: Sequence[str]) -> list[TextTokens]:
        """Return the tokens of texts, with the prompt before texts that are not empty."""
        model, limit = self.model, self.spec.truncation.limit
        tokens = tokenise(model.tokenizer, texts, None if self.prompt else limit)
        if not self.prompt:
            return tokens
        prompted = tokenise(model.tokenizer, [model.prompts[self.prompt] + text for text in texts], limit)
        return [
            whole._replace(empty=text.empty, unknown=text.unknown, missing=text.missing)
            for whole, text in zip(prompted, tokens, strict=True)
        ]

    def _predict(self, chunk: _Chunk, first: First) -> tuple[np.ndarray, np.ndarray]:
        del first
        return self._compare(chunk), np.zeros_like(chunk.pairs, dtype=bool)


class RegressionBackend(PairBackend):
    """Scores with a regression model, which predicts a number from a pair of texts."""

    load_model = staticmethod(load_regressor)

    @property
    def find_files(self) -> Callable[..., ModelFiles]:  # type: ignore[override]
        """Find a model by the content that determines its scores; for a siamese model, that of its sentence vectors."""
        return find_sentence_model if is_siamese(self.adapter) else find_model

    def _complete_spec(self) -> MetricSpec:
        """Complete the specification; refuse keys of cross-encoders for a siamese model."""
        settled = super()._complete_spec()
        if is_siamese(self.adapter):
            for name in ("activation", "first", "symmetric"):
                if (value := settled.texts().get(name)) is not None:
                    siamese = f"adapter={settled.adapter}, a siamese model, which reads each text separately"
                    raise SpecError(f"{name}={value} has no effect with {siamese}: leave it out.")
            return settled
        prompt = pipeline_settings(self.files.folder)["default_prompt_name"]
        if prompt and self.adapter is None:
            raise ModelError(f"model {self.files.label} puts the prompt {prompt!r} before texts: stsscore sets none.")
        trained = trained_activation(self.files.folder)
        remedy = "set activation=sigmoid and scale=1 for its own numbers between 0 and 1"
        if trained not in {None, "Identity"} and settled.activation is None:
            warn(
                f"model {settled.model} was trained with {trained}, and is scored by its raw output divided by "
                f"{settled.scale} (activation=identity, as the paper's models): "
                f"{remedy if trained == 'Sigmoid' else f'stsscore does not offer {trained}'}."
            )
        return settled

    def _predict(self, chunk: _Chunk, first: First) -> tuple[np.ndarray, np.ndarray]:
        model = self.model
        if isinstance(model, SentenceEncoder) and model.line:
            sizes = np.array([[len(chunk.tokens[i].ids) for i in pair] for pair in chunk.pairs.tolist()])
            limit = self.spec.truncation.limit
            kept = fit_pairs(sizes, limit + 1 if limit else None)  # the opening token, shared by both, counts once
            cut = kept < sizes
            return model.line.weight * self._compare(chunk, np.where(cut, kept, 0)) + model.line.bias, cut
        numbers = {i: place for place, i in enumerate(chunk.texts)}
        places = np.vectorize(numbers.__getitem__, otypes=[np.int64])(chunk.pairs)
        ahead = 1 if first == "prediction" else -1
        values, cut = model.predict(
            list(chunk.texts.values()),
            list(chunk.tokens.values()),
            places[:, ::ahead],
            limit=self.spec.truncation.limit,
            activation=self.spec.activation or "identity",
            batch_tokens=self.options.batch_tokens,
        )
        return values, cut[:, ::ahead]

    @property
    def orders(self) -> tuple[First, ...]:
        """Which text comes first in each forward pass: one input order, or both."""
        return get_args(First) if self.spec.symmetric else (self.spec.first or "prediction",)

    def finish(self, raw: Mapping[First, np.ndarray]) -> np.ndarray:
        """Average the input orders, divide by the scale, and clip to [0, 1] if requested."""
        scores = super().finish(raw) / cast("float", self.spec.scale)
        return np.clip(scores, 0.0, 1.0) if self.spec.clip else scores
