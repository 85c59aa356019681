"""`Backend`: finds and loads the model of a metric, and completes the requested specification."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch

from twmd_registry.engine.baseline import BASELINE, Baseline, find_baseline
from twmd_registry.engine.pairs import Pairs
from twmd_registry.engine.pipeline import CorpusSums
from twmd_registry.engine.sentences import SENTENCE_COUNTS
from twmd_registry.errors import ModelError
from twmd_registry.models import inference
from twmd_registry.models.files import ModelFiles, find_adapter, find_model
from twmd_registry.models.fitted import find_signed
from twmd_registry.models.inference import exact_arithmetic, free_memory
from twmd_registry.models.load import pick_device
from twmd_registry.progress import Stage
from twmd_registry.registry.hashes import forget_hashes
from twmd_registry.registry.metric_spec import AppliedSpec, MetricSpec
from twmd_registry.registry.options import LocalFiles, RunOptions
from twmd_registry.registry.presets import describe_model
from twmd_registry.registry.values import Truncation
from twmd_registry.tensors import TextFacts


class Scores(NamedTuple):
    """One backend's scores of pairs; of pairs of documents with ``align=sentences``."""

    sides: np.ndarray  # Precision, recall and F1, or the score of a one-sided metric; shape (3 or 1, pairs)
    sentences: np.ndarray = np.zeros(0, SENTENCE_COUNTS)  # For pairs of documents, shape (pairs,); otherwise empty

    def select(self, pairs: slice) -> Scores:
        """Return the scores of the selected pairs."""
        return Scores(self.sides[:, pairs], self.sentences[pairs])

    @classmethod
    def join(cls, parts: Sequence[Scores]) -> Scores:
        """Join the scores of consecutive pairs."""
        sides, sentences = zip(*parts, strict=True)
        return cls(np.concatenate(sides, axis=1), np.concatenate(sentences))


class PairScores(NamedTuple):
    """The scores of pairs from the backends of a group."""

    by_backend: list[Scores]
    facts: TextFacts


class Backend:
    """Base class of all backends: finds and loads the model, and completes the requested specification."""

    load_model: Callable[..., Any]
    find_files: Callable[..., ModelFiles] = staticmethod(find_model)  # Found by the content that determines a score
    loaded: Any = None  # The model, from its first use until it is released

    def __init__(self, spec: MetricSpec, options: RunOptions, local_files: LocalFiles | None = None) -> None:
        """Store the specification and its options; nothing is looked up or loaded yet. `local_files` locates the files
        that a signature names. It is None for a user's own specification, whose values may be paths.
        """
        self.requested, self.options, self.local_files = spec, options, local_files

    @cached_property
    def files(self) -> ModelFiles:
        """The model's files; raises ModelError if the model is not on this machine or does not have the signed
        content.
        """
        name, signed = str(self.requested.model), self.requested.fingerprint
        by_name = partial(self.find_files, name, self.requested.revision)
        files = self._find_files("model", by_name, self.find_files, signed)
        # If the same content has two names, keep the published one.
        return files._replace(name=name) if signed and self.local_files else files

    @cached_property
    def adapter(self) -> ModelFiles | None:
        """The adapter's files, None without one; raises ModelError if it is missing or does not have the signed
        content.
        """
        if (name := self.requested.adapter) is None:
            return None
        signed = name.rpartition("@")[2] if self.local_files and "@" in name else None
        files = self._find_files("adapter", partial(find_adapter, name), find_adapter, signed)
        return files._replace(name=name) if signed else files

    def _find_files(
        self, kind: str, by_name: Callable[..., ModelFiles], at: Callable[[str], ModelFiles], signed: str | None
    ) -> ModelFiles:
        """Find files by the name in the specification, or `at` the user's path for a signature, and check that they
        have the signed content.
        """
        path = getattr(self.local_files, kind) if self.local_files else None
        if path:  # a signed file: hash its content again
            forget_hashes()
        files = at(path) if path else by_name(paths=self.local_files is None)
        if path and self.local_files and files.fingerprint in self.local_files.signed - {signed}:
            files = by_name(paths=False)  # the path belongs to another specification of the same record
        if signed and signed != files.fingerprint:
            contents = f"@{files.fingerprint} here, not @{signed} as requested"
            raise ModelError(f"{kind} {files.label} has the content {contents}.")
        return files

    @cached_property
    def model_key(self) -> Hashable:
        """The key of the loaded model; backends with equal keys share it."""
        device = str(pick_device(self.options.device))
        return self.load_model.__name__, self.files, self.adapter, self.requested.dtype, device

    @property
    def model(self) -> Any:
        """The model, shared by all backends of this process with the same key; loaded if no backend has it."""
        key = self.model_key
        with inference.LOADING:
            model = inference.LOADED.get(key)  # a local reference, because another thread may release it
            if model is None:
                # Adapters are merged here, so override the number formats of a training loop. transformers draws random
                # weights before it reads the file.
                with exact_arithmetic(), torch.random.fork_rng(devices=[]):
                    device = pick_device(self.options.device)
                    model = self.load_model(self.files, self.adapter, str(self.requested.dtype), device)
                inference.LOADED[key] = model
        self.loaded = model
        return model

    @cached_property
    def spec(self) -> AppliedSpec:
        """The applied specification, with the hash or packaged name of its baseline."""
        baseline = self.baseline
        return self._without_baseline.replace(baseline=(baseline.hash or self.requested.baseline) if baseline else None)

    @cached_property
    def _without_baseline(self) -> AppliedSpec:
        """The applied specification without its baseline, which is checked against it."""
        return AppliedSpec.of(self._complete_spec().replace(baseline=None))

    @cached_property
    def baseline(self) -> Baseline | None:
        """The baseline for rescaling scores, None without one; raises ModelError if the file is missing or damaged, or
        was fitted for other settings.
        """
        return find_signed(
            lambda name: find_baseline(name, self._without_baseline),
            self.requested.baseline,
            self.local_files,
            BASELINE,
        )

    @property
    def hashes(self) -> dict[str, tuple[str, ...]]:
        """The sha256 of every file that the signature names by a hash, by its field in `LocalFiles`."""
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
        """The key of backends that score together, from the applied specification. Loads the model."""
        keys = self.spec.truncation, self.spec.align, self.spec.prompt, self.spec.activation
        return self.model_key, *keys, self.options.batch_tokens

    @property
    def scores_empty(self) -> bool:
        """Whether a text without tokens has a score: 0 against text, 1 against another empty text."""
        return True

    def close(self) -> None:
        """Release the model; the last backend that does so frees its memory."""
        if self.loaded is not None:
            self.loaded = None
            free_memory()

    def park(self) -> None:
        """Move a loaded model to the CPU until its next use."""
        if self.loaded is not None:
            self.model.park()

    @cached_property
    def requested_scripts(self) -> Sequence[str]:
        """The scripts that the requested model reads according to its preset; none without a preset."""
        return getattr(describe_model(self.requested.model), "scripts", ())

    @cached_property
    def scripts(self) -> Sequence[str]:
        """The scripts that the applied model reads; it may have another name."""
        return getattr(describe_model(self.spec.model), "scripts", ())

    def score_pairs(self, group: Sequence[Any], pairs: Pairs, stage: Stage, sums: CorpusSums) -> PairScores:
        """Score pairs with each backend of a group with the same `share_key`, as one stage of progress.

        `sums` come from `sum_corpus` over the whole corpus; none if the pairs are the corpus.
        """
        raise NotImplementedError

    def sum_corpus(self, group: Sequence[Any], pairs: Pairs) -> CorpusSums:
        """Return these pairs' summands of the corpus sums that a group's scores depend on; most settings need none."""
        del group, pairs
        return {}
