"""`TokenAlignmentBackend`: scores texts by aligning token vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import torch

from twmd_registry.align import ONE_SIDED
from twmd_registry.encode import idf
from twmd_registry.encode.encoder import Encoder, rule_layer
from twmd_registry.encode.mean_vectors import MEAN_VECTOR, MeanVectors, find_background, fit_background
from twmd_registry.encode.words import STOP_WORDS, as_tokenized, find_stop_words
from twmd_registry.engine.alignment import Alignment
from twmd_registry.engine.backend import Backend, PairScores, Scores
from twmd_registry.engine.pairs import Pairs
from twmd_registry.engine.pipeline import STEPS_PER_TEXT, CorpusSums, PipelineRun
from twmd_registry.engine.sentences import SENTENCE_COUNTS, facts_of_documents, split_documents
from twmd_registry.engine.token_vectors import TokenView, make_view
from twmd_registry.errors import SpecError
from twmd_registry.messages import warn
from twmd_registry.models.fitted import FittedFile, FittedPart, find_signed
from twmd_registry.models.inference import exact_arithmetic
from twmd_registry.progress import Progress, Stage
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.own_presets import warn_about_other_settings
from twmd_registry.registry.signature import Signature
from twmd_registry.registry.values import Idf, Layers, Truncation


class TokenAlignmentBackend(Backend):
    """Scores pairs in the stages encode -> center -> align -> reduce."""

    load_model = Encoder

    @cached_property
    def backgrounds(self) -> tuple[MeanVectors, ...]:
        """The mean vectors of background centering: one, or one each for hypotheses and sources. Raises ModelError if a
        file is missing or damaged, or was fitted on another model.
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
        """The stop words to drop. Raises ModelError if the file is missing or is not a list of words."""
        return find_signed(find_stop_words, self.requested.stopwords, self.local_files, STOP_WORDS)

    @cached_property
    def frequencies(self) -> FittedPart[np.ndarray] | None:
        """The document frequencies of ``idf=background``. Raises ModelError if the file is missing or damaged, or was
        fitted for another tokenizer.
        """
        return find_signed(
            lambda name: idf.find_idf(name, self.model.tokenizer),
            self.requested.idf.table if self.requested.idf else None,
            self.local_files,
            idf.FREQUENCIES,
        )

    @property
    def hashes(self) -> dict[str, tuple[str, ...]]:
        """The hashes of all files, including those that only token vectors need."""
        background = tuple(means.sha256 for means in self.backgrounds)
        fitted = {"stopwords": self.stop_words, "idf": self.frequencies}
        token_hashes = {name: (part.sha256,) for name, part in fitted.items() if part}
        return super().hashes | ({"background": background} if background else {}) | token_hashes

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
            states = f"{self.files.name} has hidden states 0 to {encoder.depth}"
            raise SpecError(f"layer={highest} is out of range: {states}.")
        return layers

    def _truncation(self, limit: int | None) -> Truncation:
        stride = self.requested.truncation.stride
        if stride is None or limit is None:
            return super()._truncation(limit)
        room = limit - self.model.tokenizer.num_special_tokens_to_add()
        if stride > room:
            window = f"truncation=window:{limit}/{stride} leaves tokens out"
            raise SpecError(f"{window}: a window has room for {room} tokens of a text besides special tokens.")
        return Truncation(limit, stride)

    @cached_property
    def view(self) -> TokenView:
        """The settings that determine the vectors, with fitted values."""
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
        """Lock the model, and yield the pipeline of a group."""
        model = (
            self.model
        )  # a local reference, because another thread may close it, and the next use would load another model
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
        self, group: Sequence[TokenAlignmentBackend], pairs: Pairs, stage: Stage, sums: CorpusSums
    ) -> PairScores:
        """Score pairs with every backend of a group; encode each distinct text (or sentence) once."""
        sentences = None
        if self.spec.align:
            pairs, sentences = split_documents(pairs)
        passes = 2 if any(backend.spec.centering.kind == "corpus" for backend in group) else 1
        work = len(pairs.texts) * passes * STEPS_PER_TEXT + len(pairs.hyp) * len(group)
        number, documents = (len(pairs.starts), len(pairs.starts)) if sentences else (len(pairs.hyp), 0)
        scores = {
            backend.spec: Scores(
                np.full((1 if backend.spec.metric in ONE_SIDED else 3, number), np.nan),
                np.zeros(documents, SENTENCE_COUNTS),
            )
            for backend in group
        }
        with stage(work) as progress, self.run(group, pairs, progress, sums) as run:
            for chunk in run.score_chunks():
                for spec, sides in chunk.sides.items():
                    spec_scores = scores[spec]
                    spec_scores.sides[:, chunk.place] = sides[: len(spec_scores.sides)].to("cpu", torch.float64).numpy()
                    if chunk.sentences is not None:
                        spec_scores.sentences[chunk.place] = chunk.sentences
            facts = facts_of_documents(run.facts, sentences) if sentences else run.facts
            return PairScores([scores[backend.spec] for backend in group], facts)

    def sum_corpus(self, group: Sequence[TokenAlignmentBackend], pairs: Pairs) -> CorpusSums:
        """Return the sums of token vectors and the document frequencies of these pairs."""
        with self.run(group, split_documents(pairs)[0] if self.spec.align else pairs) as run:
            return run.sum_corpus()

    def explain(self, pairs: Pairs, pair: int, score: float, signature: Signature) -> Alignment:
        """Return the alignment of a pair, with its score and signature."""
        if self.spec.align:
            raise SpecError("align=sentences has no alignment of whole documents to show: explain pairs of sentences.")
        with self.run([self], pairs) as run:
            return run.explain(pair, score, signature)
