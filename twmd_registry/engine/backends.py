"""The backends: alignment of token vectors, similarity of sentence vectors, and regression models that read a pair."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, cast, get_args

import numpy as np
import torch

from twmd_registry.align import ONE_SIDED
from twmd_registry.encode import idf
from twmd_registry.encode.encoder import Encoder, rule_layer, tokenise
from twmd_registry.encode.mean_vectors import MEAN_VECTOR, MeanVectors, find_background, fit_background
from twmd_registry.encode.words import STOP_WORDS, as_tokenized, find_stop_words
from twmd_registry.engine.alignment import Alignment
from twmd_registry.engine.baseline import BASELINE, Baseline, find_baseline
from twmd_registry.engine.pairs import Pairs
from twmd_registry.engine.pipeline import STEPS_PER_TEXT, CorpusSums, PipelineRun
from twmd_registry.engine.sentences import SENTENCE_COUNTS, flags_of_documents, split_documents
from twmd_registry.engine.token_vectors import TokenView, make_view
from twmd_registry.errors import ModelError, SpecError
from twmd_registry.messages import menu, warn
from twmd_registry.models import inference
from twmd_registry.models.files import ModelFiles, find_adapter, find_model, find_sentence_model
from twmd_registry.models.fitted import FittedFile, FittedPart, find_signed
from twmd_registry.models.inference import exact_arithmetic, free_memory
from twmd_registry.models.load import pick_device
from twmd_registry.models.regressor import SiameseRegressor, fit_pairs, is_siamese, load_regressor, trained_activation
from twmd_registry.models.sentence import SIMILARITIES, SentenceEncoder
from twmd_registry.progress import Progress, Stage
from twmd_registry.registry.hashes import reread
from twmd_registry.registry.metric_spec import AppliedSpec, MetricSpec
from twmd_registry.registry.names import NO_PROMPT, First, MetricName
from twmd_registry.registry.options import LocalFiles, RunOptions
from twmd_registry.registry.own_presets import warn_about_other_settings
from twmd_registry.registry.presets import describe_model
from twmd_registry.registry.signature import Signature
from twmd_registry.registry.values import Idf, Layers, Truncation
from twmd_registry.tensors import TEXT_FLAGS, TOKEN_FLAGS, TextTokens

CHUNK_LETTERS, LETTERS_OF_PAIR = 1_000_000, 100
"""Letters of the texts of pairs that are scored together, and what a pair counts beside its texts."""


class PairScores(NamedTuple):
    """The scores of pairs by the backends of a group."""

    by_backend: list[np.ndarray]  # Each of shape (sides, pairs); with align=sentences, rows of `SENTENCE_COUNTS` follow
    flags: np.ndarray  # Facts about the texts; shape (texts,), `TEXT_FLAGS`


class Backend:
    """Base class of all backends: finds and loads the model, and completes the requested specification."""

    kind: Callable[..., Any]  # Loads the model
    find: Callable[..., ModelFiles] = staticmethod(find_model)  # Finds its files, by the content that decides a score
    loaded: Any = None  # The model from its first use until it is released, else None

    def __init__(self, spec: MetricSpec, options: RunOptions, local_files: LocalFiles | None = None) -> None:
        """Store the specification to compute and its options; nothing is looked up or loaded yet. `local_files` has
        the places of the files that a signature names, None for a user's own specification, whose values may be paths.
        """
        self.requested, self.options, self.local_files = spec, options, local_files

    @cached_property
    def files(self) -> ModelFiles:
        """The model's files; a `ModelError` if it is not on this machine, or its content is not the signed one."""
        name, wanted = str(self.requested.model), self.requested.fingerprint
        files = self._find_files("model", partial(self.find, name, self.requested.revision), self.find, wanted)
        # If one content has two names, the published name is kept.
        return files._replace(name=name) if wanted and self.local_files else files

    @cached_property
    def adapter(self) -> ModelFiles | None:
        """The adapter's files, None without one; a `ModelError` if it is not available, or its content differs."""
        if (name := self.requested.adapter) is None:
            return None
        wanted = name.rpartition("@")[2] if self.local_files and "@" in name else None
        files = self._find_files("adapter", partial(find_adapter, name), find_adapter, wanted)
        return files._replace(name=name) if wanted else files

    def _find_files(
        self, kind: str, by_name: Callable[..., ModelFiles], at: Callable[[str], ModelFiles], wanted: str | None
    ) -> ModelFiles:
        """Find files by the specification's name, or `at` the place that the user names for a signature, and check that
        they have the signed content.
        """
        place = getattr(self.local_files, kind) if self.local_files else None
        with reread() if place else nullcontext():  # a signed part: no remembered hash stands in for its content
            files = at(place) if place else by_name(paths=self.local_files is None)
        if place and self.local_files and files.fingerprint in self.local_files.signed - {wanted}:
            files = by_name(paths=False)  # the place holds a part of another specification of the same record
        if wanted and wanted != files.fingerprint:
            raise ModelError(
                f"{kind} {files.label} has the content @{files.fingerprint} here, not @{wanted} as requested."
            )
        return files

    @cached_property
    def model_key(self) -> Hashable:
        """The key of the loaded model; backends with equal keys share one model."""
        device = str(pick_device(self.options.device))
        return self.kind.__name__, self.files, self.adapter, self.requested.dtype, device

    @property
    def model(self) -> Any:
        """The model, shared with all backends of the process that have the same key; loaded now if none has it."""
        key = self.model_key
        with inference.LOADING:
            model = inference.LOADED.get(key)  # in a variable: another thread may release it now
            if model is None:
                # Adapters are merged here, so a training loop's number formats are overridden; transformers draws
                # random weights before it reads the file.
                with exact_arithmetic(), torch.random.fork_rng(devices=[]):
                    device = pick_device(self.options.device)
                    model = self.kind(self.files, self.adapter, str(self.requested.dtype), device)
                inference.LOADED[key] = model
        self.loaded = model
        return model

    @cached_property
    def spec(self) -> AppliedSpec:
        """The applied specification, with the hash of its baseline, or the name of a packaged one."""
        baseline = self.baseline
        return self._without_baseline.replace(baseline=(baseline.hash or self.requested.baseline) if baseline else None)

    @cached_property
    def _without_baseline(self) -> AppliedSpec:
        """The applied specification before its baseline, whose file is checked against it."""
        return AppliedSpec.of(self._complete_spec().replace(baseline=None))

    @cached_property
    def baseline(self) -> Baseline | None:
        """The baseline by which scores are rescaled, None without one; a `ModelError` if the file is missing, damaged,
        or was fitted for other settings.
        """
        return find_signed(
            lambda wanted: find_baseline(wanted, self._without_baseline),
            self.requested.baseline,
            self.local_files,
            BASELINE,
        )

    @property
    def hashes(self) -> dict[str, tuple[str, ...]]:
        """The sha256 of every part that the signature names by a hash, by the part's name in `LocalFiles`."""
        parts = {"model": self.files, "adapter": self.adapter, "baseline": self.baseline}
        return {name: (part.sha256,) for name, part in parts.items() if part and part.sha256}

    def _complete_spec(self) -> MetricSpec:
        """Complete the specification with values that depend on the model: name, fingerprint, length limit."""
        limit = self.model.check_limit(self.requested.truncation.limit)
        return self.requested.replace(
            model=self.files.name,
            fingerprint=self.files.fingerprint,
            adapter=self.adapter.name if self.adapter else None,
            truncation=self._truncation(limit),
        )

    def _truncation(self, limit: int | None) -> Truncation:
        """Return the applied truncation."""
        return Truncation(limit)

    @cached_property
    def share_key(self) -> Hashable:
        """The key of backends that score together, by the applied specification, for which the model is loaded."""
        keys = self.spec.truncation, self.spec.align, self.spec.prompt, self.spec.activation
        return self.model_key, *keys, self.options.batch_tokens

    def close(self) -> None:
        """Release the model; the last backend that does so frees its memory."""
        if self.loaded is not None:
            self.loaded = None
            free_memory()

    def park(self) -> None:
        """Move the model, if it is loaded, to the CPU until its next use."""
        if self.loaded is not None:
            self.model.park()

    @cached_property
    def requested_scripts(self) -> Sequence[str]:
        """The scripts that a preset says the requested model reads; none where no preset does."""
        return getattr(describe_model(self.requested.model), "scripts", ())

    @cached_property
    def scripts(self) -> Sequence[str]:
        """The same of the applied specification, whose model may have another name."""
        return getattr(describe_model(self.spec.model), "scripts", ())

    def score_pairs(
        self, group: Sequence[Any], pairs: Pairs, stage: Stage, sums: CorpusSums | None = None
    ) -> PairScores:
        """Score pairs by each backend of a group with one `share_key`, as one stage of progress.

        `sums` come from `sum_corpus` over the whole corpus; None if the pairs are the corpus.
        """
        raise NotImplementedError

    def sum_corpus(self, group: Sequence[Any], pairs: Pairs) -> CorpusSums:
        """Return what these pairs add to the corpus sums that scores by a group depend on; most settings need none."""
        del group, pairs
        return {}


class TokenAlignmentBackend(Backend):
    """Scores by encode -> center -> align -> reduce."""

    kind = Encoder

    @cached_property
    def backgrounds(self) -> tuple[MeanVectors, ...]:
        """The mean vectors of background centering: one, or one for hypotheses and one for sources; a `ModelError` if a
        file is missing, damaged, or was fitted for another model.
        """
        if self.requested.centering.kind != "background":
            return ()
        adapter = self.adapter.name if self.adapter else None
        find = partial(find_background, fingerprint=self.files.fingerprint, adapter=adapter)
        if not (named := self.requested.centering.means):
            return (find(None),)
        vectors = (find_signed(find, name, self.local_files, MEAN_VECTOR) for name in named)
        return tuple(means for means in vectors if means)

    @cached_property
    def stop_words(self) -> FittedPart[frozenset[str]] | None:
        """The stop words that are dropped; a `ModelError` if the file is missing, or is not a list of words."""
        return find_signed(find_stop_words, self.requested.stopwords, self.local_files, STOP_WORDS)

    @cached_property
    def frequencies(self) -> FittedPart[np.ndarray] | None:
        """The document frequencies of ``idf=background``; a `ModelError` if the file is missing, damaged, or was fitted
        for another tokenizer.
        """
        return find_signed(
            lambda wanted: idf.find_idf(wanted, self.model.tokenizer),
            self.requested.idf.table if self.requested.idf else None,
            self.local_files,
            idf.FREQUENCIES,
        )

    @property
    def hashes(self) -> dict[str, tuple[str, ...]]:
        """The same, with the parts that only token vectors have."""
        background = tuple(means.sha256 for means in self.backgrounds)
        fitted = {"stopwords": self.stop_words, "idf": self.frequencies}
        own = {name: (part.sha256,) for name, part in fitted.items() if part}
        return super().hashes | ({"background": background} if background else {}) | own

    def _complete_spec(self) -> MetricSpec:
        """Complete the specification; warn if the layer is chosen by rule."""
        stop_words, frequencies = self.stop_words, self.frequencies
        means = tuple(means.hash for means in self.backgrounds)
        settled = (
            super()
            ._complete_spec()
            .replace(
                layer=self._layers(),
                unknown=None if self.model.static else self.requested.unknown,
                stopwords=stop_words.hash if stop_words else None,
                idf=Idf("background", frequencies.hash) if frequencies else self.requested.idf,
                centering=replace(self.requested.centering, means=means),
            )
        )
        if self.adapter is not None:
            warn_about_other_settings(settled, self.adapter.folder)
        return settled

    def _layers(self) -> Layers:
        """Return the layers to read."""
        requested, encoder = self.requested.layer, self.model
        if requested is None:
            layer = rule_layer(encoder.depth)
            warn(
                f"untuned: no settings of {self.files.name} were measured against human ratings. By rule, "
                f"layer={layer} (5/6 of its depth) and centering={self.requested.centering}."
            )
            return Layers((layer,))
        layers = requested.settle(encoder.depth)
        if (highest := layers.numbers[-1]) > encoder.depth:
            raise SpecError(
                f"layer={highest} is out of range: {self.files.name} has hidden states 0 to {encoder.depth}."
            )
        return layers

    def _truncation(self, limit: int | None) -> Truncation:
        stride = self.requested.truncation.stride
        if stride is None or limit is None:
            return super()._truncation(limit)
        room = limit - self.model.tokenizer.num_special_tokens_to_add()
        if stride > room:
            raise SpecError(
                f"truncation=window:{limit}/{stride} leaves tokens out: a window holds {room} of a text beside "
                "special tokens."
            )
        return Truncation(limit, stride)

    @cached_property
    def view(self) -> TokenView:
        """The settings that decide the vectors, with the fitted parts."""
        view, encoder = make_view(self.spec), self.model
        if self.backgrounds:
            both = [means.content[view.special] for means in self.backgrounds]
            view = replace(view, means={k: torch.stack([means[k] for means in both]) for k in view.layers})
        if self.stop_words is not None:
            words = as_tokenized(self.stop_words.content, encoder.tokenizer, encoder.pieces, view.stopword_unit)
            view = replace(view, stop_words=words)
        if self.frequencies is not None:
            unseen = encoder.tokenizer.unk_token_id if view.unknown == "apart" else None
            weights = torch.from_numpy(idf.idf_weights(self.frequencies.content, unseen))
            view = replace(view, weights=(weights, weights))
        return view

    @contextmanager
    def run(
        self,
        group: Sequence[TokenAlignmentBackend],
        pairs: Pairs,
        progress: Progress | None = None,
        sums: CorpusSums | None = None,
    ) -> Iterator[PipelineRun]:
        """Hold the model, and yield the pipeline of a group."""
        model = self.model  # once: another thread may close it, and the next use would load another model
        with model.lock, torch.inference_mode(), exact_arithmetic():
            yield PipelineRun(
                model,
                {backend.spec: backend.view for backend in group},
                pairs,
                documents=self.spec.align is not None,
                batch_tokens=self.options.batch_tokens,
                keep=max(backend.options.keep_references for backend in group),
                sums=sums,
                progress=progress,
            )

    def fit_background(self, texts: Iterable[str], progress: Progress | None = None) -> FittedFile:
        """Average the hidden states over a corpus."""
        model = self.model
        with model.lock, torch.inference_mode(), exact_arithmetic():
            return fit_background(model, texts, self.spec, progress, self.options.batch_tokens)

    def fit_idf(self, texts: Iterable[str], progress: Progress | None = None) -> FittedFile:
        """Count document frequencies over a corpus."""
        model = self.model
        with model.lock:
            return idf.fit_idf(model, texts, self.spec, progress)

    def score_pairs(
        self, group: Sequence[TokenAlignmentBackend], pairs: Pairs, stage: Stage, sums: CorpusSums | None = None
    ) -> PairScores:
        """Score pairs by every backend of a group; encode each distinct text (or sentence) once."""
        sentences = None
        if self.spec.align:
            pairs, sentences = split_documents(pairs)
        passes = 2 if any(backend.spec.centering.kind == "corpus" for backend in group) else 1
        work = len(pairs.texts) * passes * STEPS_PER_TEXT + len(pairs.hyp) * len(group)
        more, columns = (len(SENTENCE_COUNTS), len(pairs.starts)) if self.spec.align else (0, len(pairs.hyp))
        rows = {backend.spec: (1 if backend.spec.metric in ONE_SIDED else 3) + more for backend in group}
        scores = {spec: np.full((number, columns), np.nan) for spec, number in rows.items()}
        with stage(work) as progress, self.run(group, pairs, progress, sums) as run:
            for chunk, by_spec in run.score_chunks():
                for spec, sides in by_spec.items():
                    scores[spec][:, chunk] = sides[: rows[spec]].to("cpu", torch.float64).numpy()
            flags = flags_of_documents(run.flags, sentences) if sentences else run.flags
            return PairScores([scores[backend.spec] for backend in group], flags)

    def sum_corpus(self, group: Sequence[TokenAlignmentBackend], pairs: Pairs) -> CorpusSums:
        """Return the sums of token vectors and the document frequencies of these pairs."""
        with self.run(group, split_documents(pairs)[0] if self.spec.align else pairs) as run:
            return run.sum_corpus()

    def explain(self, pairs: Pairs, pair: int, score: float, signature: Signature) -> Alignment:
        """Return how one of the pairs is aligned, with its score and signature."""
        if self.spec.align:
            raise SpecError("align=sentences has no alignment of whole documents to show: explain pairs of sentences.")
        with self.run([self], pairs) as run:
            return run.explain(pair, score, signature)


class _Chunk(NamedTuple):
    """Distinct pairs of some texts that are scored together."""

    pairs: np.ndarray  # The numbers of both texts of every pair; shape (pairs, 2)
    texts: dict[int, str]  # By number
    tokens: dict[int, TextTokens]  # Of the texts, by number
    vectors: dict[int, np.ndarray]  # Of texts that this or an earlier chunk encoded, by number


class PairBackend(Backend):
    """Scores pairs of whole texts; each distinct pair once, independently of the others, in chunks of bounded size."""

    def score_pairs(
        self, group: Sequence[Any], pairs: Pairs, stage: Stage, sums: CorpusSums | None = None
    ) -> PairScores:
        """Score pairs by every backend of a group; read each distinct pair (for sentence vectors, each text) once."""
        del sums
        orders = sorted({first for backend in group for first in backend.orders})
        # A pair of texts as one number.
        _, first, inverse = np.unique(pairs.hyp * len(pairs.texts) + pairs.ref, return_index=True, return_inverse=True)
        distinct = np.stack([pairs.hyp[first], pairs.ref[first]], axis=1)  # (pairs, 2)
        raw = {order: np.zeros(len(distinct)) for order in orders}
        flags, vectors, model = np.zeros(len(pairs.texts), TEXT_FLAGS), dict[int, np.ndarray](), self.model
        letters = np.fromiter(map(len, pairs.texts), dtype=np.int64)
        part = np.cumsum(letters[distinct].sum(1) + LETTERS_OF_PAIR) // CHUNK_LETTERS
        last = np.zeros(len(pairs.texts), dtype=np.int64)  # the part in which a text is needed for the last time
        np.maximum.at(last, distinct.ravel(), np.repeat(part, 2))  # numpy 2.4 broadcasts values wrongly here
        with stage(len(distinct) * len(orders)) as progress:
            for number in np.unique(part).tolist():
                rows = np.flatnonzero(part == number)
                here = np.unique(distinct[rows]).tolist()
                texts = {i: pairs.texts[i] for i in here}
                with model.lock, torch.inference_mode(), exact_arithmetic():
                    tokens = dict(zip(here, self._tokenise(list(texts.values())), strict=True))
                    for i, text in tokens.items():
                        was_cut = flags["truncated"][i]
                        flags[TOKEN_FLAGS][i] = text.flags
                        flags["truncated"][i] |= was_cut
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
        scores = [np.where(empty.any(1), empty.all(1), backend.finish(raw))[inverse][None] for backend in group]
        return PairScores(scores, flags)

    def _tokenise(self, texts: Sequence[str]) -> list[TextTokens]:
        """Return the tokens of whole texts."""
        return tokenise(self.model.tokenizer, texts, None)

    def _predict(self, chunk: _Chunk, first: First) -> tuple[np.ndarray, np.ndarray]:
        """Return a number for every pair, shape (pairs,), in an order of its texts, and which texts were cut, shape
        (pairs, 2).
        """
        raise NotImplementedError

    def _compare(self, chunk: _Chunk, kept: np.ndarray | None = None) -> np.ndarray:
        """Return the similarities of the sentence vectors of pairs, shape (pairs,); a text is cut to the tokens `kept`
        in its pair, shape (pairs, 2), where that is not 0.
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
        """The name of the prompt that is set before every text; None for none."""
        return None

    @property
    def orders(self) -> tuple[First, ...]:
        """The first text of every forward pass: one input order, or both."""
        return ("prediction",)

    def finish(self, raw: Mapping[First, np.ndarray]) -> np.ndarray:
        """Return the scores of pairs, shape (pairs,), from the numbers of every order."""
        return np.asarray(np.mean([raw[first] for first in self.orders], axis=0))


class SentenceBackend(PairBackend):
    """Scores by the sentence vectors of a model as its authors made it."""

    kind = SentenceEncoder
    find = staticmethod(find_sentence_model)

    def _complete_spec(self) -> MetricSpec:
        """Complete the specification with the prompt that is set before every text."""
        named, model = self.requested.prompt, self.model
        if named is not None and named != NO_PROMPT and named not in model.prompts:
            raise SpecError(
                f"model {self.files.label} has no prompt {named!r}; {menu(named, [*model.prompts, NO_PROMPT])}."
            )
        applied = named or model.default_prompt
        if applied == NO_PROMPT and model.default_prompt is None:
            applied = None
        return super()._complete_spec().replace(prompt=applied)

    @property
    def prompt(self) -> str | None:
        """The name of the prompt that is set before every text; None for none."""
        return None if self.spec.prompt == NO_PROMPT else self.spec.prompt

    def _tokenise(self, texts: Sequence[str]) -> list[TextTokens]:
        """Return the tokens of texts, with the prompt before them where that is not empty."""
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
    """Scores by a regression model: a pair of texts in, a number out."""

    kind = staticmethod(load_regressor)

    @property
    def find(self) -> Callable[..., ModelFiles]:  # type: ignore[override]
        """Find a model by the content that decides its scores: of a siamese one, its sentence vectors."""
        return find_sentence_model if is_siamese(self.adapter) else find_model

    def _complete_spec(self) -> MetricSpec:
        """Complete the specification; a siamese model does not use `first`, `symmetric` and `activation`."""
        settled = super()._complete_spec()
        if is_siamese(self.adapter):
            return settled.replace(first=None, symmetric=None, activation=None)
        trained = trained_activation(self.files.folder)
        if trained not in {None, "Identity"} and settled.activation is None:
            warn(
                f"model {settled.model} was trained with {trained}, and is scored by its raw output over "
                f"{settled.scale} (activation=identity, as the paper's models): set activation=sigmoid and scale=1 for "
                "its own numbers between 0 and 1."
            )
        return settled

    def _predict(self, chunk: _Chunk, first: First) -> tuple[np.ndarray, np.ndarray]:
        model = self.model
        if isinstance(model, SiameseRegressor):
            sizes = np.array([[len(chunk.tokens[i].ids) for i in pair] for pair in chunk.pairs.tolist()])
            limit = self.spec.truncation.limit
            kept = fit_pairs(sizes, limit + 1 if limit else None)  # the token that opens both counts once
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
        """The first text of every forward pass: one input order, or both."""
        return get_args(First) if self.spec.symmetric else (self.spec.first or "prediction",)

    def finish(self, raw: Mapping[First, np.ndarray]) -> np.ndarray:
        """Return the mean of the orders over the scale, cut off at 0 and 1 if requested."""
        scores = super().finish(raw) / cast("float", self.spec.scale)
        return np.clip(scores, 0.0, 1.0) if self.spec.clip else scores


def make_backend(spec: MetricSpec, options: RunOptions, local_files: LocalFiles | None = None) -> Backend:
    """Return the backend of a specification's metric."""
    if spec.metric is MetricName.STSSCORE:
        return RegressionBackend(spec, options, local_files)
    return (SentenceBackend if spec.reads_sentences else TokenAlignmentBackend)(spec, options, local_files)
