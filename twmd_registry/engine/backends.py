"""The two backends: alignment of token vectors, and regression models that read a pair of texts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, cast, get_args

import numpy as np
import torch

from twmd_registry.align import ONE_SIDED
from twmd_registry.encode import idf
from twmd_registry.encode.encoder import Encoder, last_layers, rule_layer, tokenise
from twmd_registry.encode.mean_vectors import MEAN_VECTOR, MeanVectors, find_background, fit_background
from twmd_registry.encode.words import STOP_WORDS, as_tokenized, find_stop_words
from twmd_registry.engine.baseline import BASELINE, Baseline, find_baseline
from twmd_registry.engine.pairs import Pairs
from twmd_registry.engine.pipeline import STEPS_PER_TEXT, AllReduce, PipelineRun, single_process
from twmd_registry.engine.sentences import SENTENCE_COUNTS, flags_of_documents, split_documents
from twmd_registry.engine.token_vectors import TokenView, make_view
from twmd_registry.errors import ModelError, SpecError
from twmd_registry.messages import warn
from twmd_registry.models import inference
from twmd_registry.models.files import ModelFiles, find_adapter, find_model
from twmd_registry.models.fitted import FittedPart, find_signed
from twmd_registry.models.inference import exact_arithmetic, free_memory
from twmd_registry.models.load import pick_device
from twmd_registry.models.regressor import Regressor
from twmd_registry.progress import Progress, Stage
from twmd_registry.registry.hashes import reread
from twmd_registry.registry.keys import layers_text
from twmd_registry.registry.names import First, MetricName
from twmd_registry.registry.options import LocalFiles, RunOptions
from twmd_registry.registry.own_presets import warn_about_other_settings
from twmd_registry.registry.presets import describe_model
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.tensors import TEXT_FLAGS, TOKEN_FLAGS

Scored = tuple[list[np.ndarray], np.ndarray]
"""The scores of all pairs by every backend of a group, each of shape (sides, pairs) (of documents, with rows of
`SENTENCE_COUNTS`), and the flags of the texts."""


class Backend:
    """Base class of both backends: finds and loads the model, and completes the requested specification."""

    kind: type[Encoder] | type[Regressor]  # The class of the loaded model
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
        files = self._find_files("model", partial(find_model, name, self.requested.revision), find_model, wanted)
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
        given = getattr(self.local_files, kind) if self.local_files else None
        with reread() if given else nullcontext():  # a signed part: no remembered hash stands in for its content
            files = at(given) if given else by_name(paths=self.local_files is None)
        if given and self.local_files and files.fingerprint in self.local_files.signed - {wanted}:
            files = by_name(paths=False)  # the place holds a part of another specification of the same record
        if wanted and wanted != files.fingerprint:
            raise ModelError(
                f"{kind} {files.label} has the content @{files.fingerprint} here, not @{wanted} as asked for."
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
    def spec(self) -> MetricSpec:
        """The applied specification, with the hash of its baseline, or the name of a packaged one."""
        baseline = self.baseline
        return self._without_baseline.replace(baseline=(baseline.hash or self.requested.baseline) if baseline else None)

    @cached_property
    def _without_baseline(self) -> MetricSpec:
        """The applied specification before its baseline, whose file is checked against it."""
        return self._complete_spec()

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
        limit = self.model.check_limit(self.requested.limit)
        return self.requested.replace(
            model=self.files.name,
            fingerprint=self.files.fingerprint,
            adapter=self.adapter.name if self.adapter else None,
            truncation=self._truncation(limit),
        )

    def _truncation(self, limit: int | None) -> str:
        """Return the applied truncation."""
        return "cut" if limit is None else f"cut:{limit}"

    @cached_property
    def share_key(self) -> Hashable:
        """The key of backends that score together, by the applied specification, for which the model is loaded."""
        return (self.model_key, self.spec.truncation, self.spec.align, self.options.batch_tokens)

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

    def score_group(
        self, group: Sequence[Any], pairs: Pairs, stage: Stage, total: AllReduce = single_process
    ) -> Scored:
        """Score all pairs by every member of a group that shares a key, as one stage of progress."""
        raise NotImplementedError

    def sum_up(self, group: Sequence[Any], pairs: Pairs, total: AllReduce) -> None:
        """Add what these pairs contribute to the corpus sums by the all-reduce `total`; most settings need none."""


class TokenAlignmentBackend(Backend):
    """Scores by encode -> center -> align -> reduce."""

    kind = Encoder

    @cached_property
    def backgrounds(self) -> tuple[MeanVectors, ...]:
        """The mean vectors that background centering subtracts, and those of the sources where they have their own; a
        `ModelError` if a file is missing, damaged, or was fitted for another model.
        """
        if self.requested.centering_kind != "background":
            return ()
        adapter = self.adapter.name if self.adapter else None
        find = partial(find_background, fingerprint=self.files.fingerprint, adapter=adapter)
        if self.requested.background is None:
            return (find(None),)
        names = (self.requested.background, self.requested.source_background)
        vectors = (find_signed(find, name, self.local_files, MEAN_VECTOR) for name in names)
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
            self.requested.idf_file,
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
        means = "+".join(means.hash for means in self.backgrounds)
        settled = (
            super()
            ._complete_spec()
            .replace(
                layer=self._layers(),
                unknown=None if self.model.static else self.requested.unknown,
                stopwords=stop_words.hash if stop_words else None,
                idf=f"background:{frequencies.hash}" if frequencies else self.requested.idf,
                centering=f"background:{means}" if means else self.requested.centering,
            )
        )
        if self.adapter is not None:
            warn_about_other_settings(settled, self.adapter.folder)
        return settled

    def _layers(self) -> int | str:
        """Return the layers to read, written as in a signature."""
        requested, encoder = self.requested.layer, self.model
        if requested is None:
            layer = rule_layer(encoder.depth)
            warn(
                f"untuned: no settings of {self.files.name} were measured against human ratings. By rule, "
                f"layer={layer} (5/6 of its depth) and centering={self.requested.centering}."
            )
            return layer
        layers = self.requested.layers or last_layers(str(requested), encoder.depth)
        if (highest := max(layers)) > encoder.depth:
            raise SpecError(
                f"layer={highest} is out of range: {self.files.name} has hidden states 0 to {encoder.depth}."
            )
        return layers_text(layers)  # type: ignore[return-value]

    def _truncation(self, limit: int | None) -> str:
        stride = self.requested.stride
        if stride is None or limit is None:
            return super()._truncation(limit)
        room = limit - self.model.tokenizer.num_special_tokens_to_add()
        if stride > room:
            raise SpecError(
                f"truncation=window:{limit}/{stride} leaves tokens out: a window holds {room} of a text beside "
                "special tokens."
            )
        return f"window:{limit}/{stride}"

    @cached_property
    def view(self) -> TokenView:
        """The settings that decide the vectors, with the fitted parts."""
        view, encoder = make_view(self.spec), self.model
        if self.backgrounds:
            both = [means.content[str(view.special)] for means in self.backgrounds]
            view = replace(view, means={k: torch.stack([means[k] for means in both]) for k in view.layers})
        if self.stop_words is not None:
            words = as_tokenized(
                self.stop_words.content, encoder.tokenizer, encoder.pieces, view.stopword_unit or "word"
            )
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
        progress: Progress | None,
        total: AllReduce = single_process,
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
                total=total,
                progress=progress,
            )

    def fit_background(self, texts: Iterable[str], progress: Progress | None = None) -> bytes:
        """Average the hidden states over a corpus; return the content of a mean-vector file."""
        model = self.model
        with model.lock, torch.inference_mode(), exact_arithmetic():
            return fit_background(model, texts, self.spec, progress, self.options.batch_tokens)

    def fit_idf(self, texts: Iterable[str], progress: Progress | None = None) -> bytes:
        """Count document frequencies over a corpus; return the content of a frequencies file."""
        model = self.model
        with model.lock:
            return idf.fit_idf(model, texts, self.spec, progress)

    def score_group(
        self, group: Sequence[TokenAlignmentBackend], pairs: Pairs, stage: Stage, total: AllReduce = single_process
    ) -> Scored:
        """Score all pairs by every member, each different text (or sentence) encoded once."""
        sentences = None
        if self.spec.align:
            pairs, sentences = split_documents(pairs)
        passes = 2 if any(backend.spec.centering_kind == "corpus" for backend in group) else 1
        work = len(pairs.texts) * passes * STEPS_PER_TEXT + len(pairs.hyp) * len(group)
        more, columns = (len(SENTENCE_COUNTS), len(pairs.starts)) if self.spec.align else (0, len(pairs.hyp))
        rows = {backend.spec: (1 if backend.spec.metric in ONE_SIDED else 3) + more for backend in group}
        scores = {spec: np.full((number, columns), np.nan) for spec, number in rows.items()}
        with stage(work) as progress, self.run(group, pairs, progress, total) as run:
            for chunk, by_spec in run.score_chunks():
                for spec, sides in by_spec.items():
                    scores[spec][:, chunk] = sides[: rows[spec]].to("cpu", torch.float64).numpy()
            flags = flags_of_documents(run.flags, sentences) if sentences else run.flags
            return [scores[backend.spec] for backend in group], flags

    def sum_up(self, group: Sequence[TokenAlignmentBackend], pairs: Pairs, total: AllReduce) -> None:
        """Add the token vectors and document frequencies of these pairs to the sums over the corpus, by `total`."""
        with self.run(group, split_documents(pairs)[0] if self.spec.align else pairs, None, total) as run:
            run.sum_corpus()

    def explain(self, pairs: Pairs, pair: int) -> dict[str, Any]:
        """Return how one of these pairs is aligned, as `PipelineRun.explain`."""
        if self.spec.align:
            raise SpecError("align=sentences has no alignment of whole documents to show: explain pairs of sentences.")
        with self.run([self], pairs, None) as run:
            return run.explain(pair)


class RegressionBackend(Backend):
    """Scores by a regression model: a pair of texts in, a number out."""

    kind = Regressor

    def _complete_spec(self) -> MetricSpec:
        """Complete the specification; a model that encodes texts separately does not use `first` and `symmetric`."""
        settled = super()._complete_spec()
        return settled.replace(first=None, symmetric=None) if self.model.reads_apart else settled

    def score_group(
        self, group: Sequence[RegressionBackend], pairs: Pairs, stage: Stage, total: AllReduce = single_process
    ) -> Scored:
        """Score all pairs; each distinct pair is predicted once, independently of the others."""
        del total
        orders = sorted({first for backend in group for first in backend.orders})
        different, inverse = np.unique(np.stack([pairs.hyp, pairs.ref]), axis=1, return_inverse=True)
        hyp, ref = different
        raw: dict[First, np.ndarray] = {}
        model = self.model
        with stage(len(pairs.hyp) * len(orders)) as progress, model.lock, torch.inference_mode(), exact_arithmetic():
            tokens = tokenise(model.tokenizer, pairs.texts, None)
            flags = np.zeros(len(tokens), TEXT_FLAGS)
            flags[TOKEN_FLAGS] = [text.flags for text in tokens]
            empty = flags["empty"]
            full = np.flatnonzero(~empty[hyp] & ~empty[ref])
            for first in orders if len(full) else ():
                sides = np.stack((hyp[full], ref[full]) if first == "prediction" else (ref[full], hyp[full]), axis=1)
                raw[first], truncated = model.predict(
                    pairs.texts,
                    tokens,
                    sides,
                    limit=self.spec.limit,
                    batch_tokens=self.options.batch_tokens,
                    progress=progress,
                )
                flags["truncated"][sides[truncated]] = True
        scored = []
        for backend in group:
            scores = (empty[hyp] & empty[ref]).astype(np.float64)  # 1 for two empty texts, 0 for one, as `align_pairs`
            if raw:
                mean = np.mean([raw[first] for first in backend.orders], axis=0)
                scores[full] = mean / cast("float", backend.spec.scale)
            scored.append((np.clip(scores, 0.0, 1.0) if backend.spec.clip else scores)[inverse][None])  # (1, pairs)
        return scored, flags

    @property
    def orders(self) -> tuple[First, ...]:
        """Return the first text of every forward pass: one input order, or both."""
        return get_args(First) if self.spec.symmetric else (self.spec.first or "prediction",)


def make_backend(spec: MetricSpec, options: RunOptions, local_files: LocalFiles | None = None) -> Backend:
    """Return the backend of a specification's metric."""
    return (RegressionBackend if spec.metric is MetricName.STSSCORE else TokenAlignmentBackend)(
        spec, options, local_files
    )
