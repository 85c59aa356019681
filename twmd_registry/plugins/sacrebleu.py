"""The registry's metrics as SacreBLEU metrics: `Metric`, `Score`, `Signature`, on SacreBLEU's scale to 100."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from numbers import Integral
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from sacrebleu.metrics.base import Metric, Score
from sacrebleu.metrics.base import Signature as BaseSignature

from twmd_registry.engine.input_warnings import check_sample
from twmd_registry.engine.pairs import Segments, check_rows, digest_of_texts
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import load
from twmd_registry.engine.shared_passes import check_needs_no_sources
from twmd_registry.errors import InputError, SpecError, check_types
from twmd_registry.plugins import metric_classes
from twmd_registry.registry.metric_spec import AppliedSpec, MetricSpec, split_name
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import MetricKeys
from twmd_registry.registry.references import present_references
from twmd_registry.registry.signature import Signature
from twmd_registry.registry.spec import keys_to_set

SCALE = 100.0
STREAMS = (
    "SacreBLEU takes streams, [[first reference of every hypothesis], [second of every hypothesis], ...] "
    "(None where there is none), and not one list per hypothesis."
)
"""Part of errors about the layout of references."""


class _Mean(float):
    """A mean that compares greater than 0, because SacreBLEU omits other means."""

    def __gt__(self, _other: float) -> bool:
        return True


class EmbeddingSignature(BaseSignature):
    """Our signature without the metric's name, which SacreBLEU writes before it."""

    def __init__(self, args: dict[str, Any]) -> None:
        """Read the applied specification from the metric's scorer."""
        super().__init__(args)
        self._spec: AppliedSpec = args["scorer"].spec

    def format(self, short: bool = False) -> str:  # noqa: FBT002 (SacreBLEU's)
        """Write the signature, long or short."""
        head, _, rest = self.whole(short=short).partition("|")
        # SacreBLEU writes the score's name first, which does not include an ensemble's members.
        members = split_name(head)[1]
        return f"members:{members}|{rest}" if members else rest

    def whole(self, *, short: bool = False) -> str:
        """Write the signature with the metric's name, as everywhere else."""
        # A seed of "none" means that SacreBLEU drew without one.
        counts = ((name, self.info[name]) for name in ("nrefs", "bs", "ar", "seed"))
        texts = {name: str(value).lower() for name, value in counts if value is not None}
        known: dict[str, Any] = {name: int(text) if text.isdecimal() else text for name, text in texts.items()}
        if all(member.against == "source" for member in self._spec.members_or_self):
            known["nrefs"] = 0
        return Signature(self._spec, **known).format(short=short)


class SacreBLEUMetric(Metric):
    """One metric of the registry as a SacreBLEU metric.

    Segments are scored once, in one batch. The scores are cached for SacreBLEU's tests, which request them again.
    SacreBLEU's `PairedTest` runs on it with its own p-values: ties count as evidence, a system compared with itself
    gets the smallest p, and seed 0 means no seed. `compare_systems` and the command line have tests without these
    flaws.

    Attributes:
        scorer: Computes the scores.
        checked_sample: Number of segments last checked for tests and intervals, not to be checked again.

    >>> TWMD().corpus_score(["it rains", "a cat"], [["it is raining", "a cat"]]).name
    'twmd'
    """

    _SIGNATURE_TYPE = EmbeddingSignature
    METRIC: MetricName

    @check_types(name=str | None)
    def __init__(
        self,
        preset: str | None = None,
        *,
        references: Sequence[Sequence[str | None]] | None = None,
        name: str | None = None,
        **keys: Unpack[MetricKeys],
    ) -> None:
        """Create the metric; no model is loaded yet.

        Args:
            preset: A preset's name.
            references: Streams of references, used if none are passed later.
            name: The scores' name, by default the metric's with every key that differs from its default preset.
            keys: Keys of the specification and run options.

        Raises:
            SpecError: As for `twmd_registry.load`.
            InputError: The streams differ in length.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self.scorer = load(self.METRIC, preset, **keys)
        check_needs_no_sources(self.scorer)
        self._name = name
        self._known: dict[str, ScoreSet] = {}
        self.checked_sample: int | None = None
        if references is not None:
            self._ref_cache = self._cache_references(_check_streams(references))

    @property
    def name(self) -> str:
        """The scores' name."""
        if not self._name:  # SacreBLEU reads it in every trial of a test
            self._name = short_name(self.scorer.requested)
        return self._name

    @check_types(n_bootstrap=Integral)
    def corpus_score(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str | None]] | None, n_bootstrap: int = 1
    ) -> Score:
        """Return the corpus score times 100.

        Args:
            hypotheses: Texts, one per segment.
            references: Streams of references, SacreBLEU's layout; None for the constructor's streams.
            n_bootstrap: Resamples of a confidence interval; 1 for none.

        Raises:
            InputError: As for `Scorer.score`, streams of different length, or an interval of a single segment.
            SpecError: No references.
        """
        self.n_bootstrap = self.seed = None  # do not show an earlier interval in the signature
        texts = check_rows(hypotheses, "hypotheses")
        streams = None if references is None else _check_streams(references)
        if not texts:
            raise InputError("no hypotheses: pass at least one.")
        result: Score = super().corpus_score(texts, streams, n_bootstrap)  # type: ignore[arg-type]
        if n_bootstrap > 1:
            result._mean = _Mean(result._mean)  # noqa: SLF001
        return result

    @check_types(hypothesis=str, references=Iterable)
    def sentence_score(self, hypothesis: str, references: Sequence[str | None]) -> Score:
        """Return a sentence's score times 100, with its references in a list."""
        if not (texts := check_rows(references, "references", optional=True)):
            raise InputError("references is an empty list: pass at least one text.")
        result: Score = super().sentence_score(hypothesis, texts)
        return result

    def _cache_references(self, references: Sequence[Sequence[str | None]]) -> list[Any]:
        lengths = [len(stream) for stream in references]
        if len(set(lengths)) > 1:
            raise InputError(f"reference streams of different length ({', '.join(map(str, lengths))}). {STREAMS}")
        present = zip_longest(*map(present_references, zip(*references, strict=True)))  # SacreBLEU only skips None
        cached: list[Any] = super()._cache_references(list(present))
        return cached

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str | None]] | None
    ) -> list[list[float]]:
        cache = self._cache_references(references) if references is not None else self._ref_cache
        if cache is None:
            raise SpecError("no references: pass them here or to the constructor.")
        if len(cache) != len(hypotheses):
            lengths = f"{len(hypotheses)} hypotheses, but {len(cache)} texts in each reference stream"
            raise InputError(f"there are {lengths}. {STREAMS}")
        by_segment: list[list[str]] = [entry["refs"] for entry in cache]
        digest = digest_of_texts(Segments(list(hypotheses), by_segment))
        if digest not in self._known:
            self._known[digest] = self.scorer.score(hypotheses, by_segment)
        return [[SCALE * score, 1.0] for score in self._known[digest].scores]

    def _aggregate_and_compute(self, stats: Any) -> Score:
        total = np.asarray(stats, dtype=np.float64).sum(axis=0)
        # A corpus has a list of statistics; a trial of SacreBLEU's randomisation test has an array.
        return self._compute_score_from_stats(total) if isinstance(stats, np.ndarray) else self._score_of(total)

    def _compute_score_from_stats(self, stats: Any) -> Score:
        """Score a resample. Only SacreBLEU's tests and intervals call this, not scoring a corpus."""
        segments = int(stats[1])
        if segments != self.checked_sample:
            check_sample(segments)
            self.checked_sample = segments
        return self._score_of(stats)

    def _score_of(self, total: Any) -> Score:
        return Score(self.name, float(total[0]) / float(total[1]))

    def _preprocess_segment(self, sent: str) -> str:
        return sent

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"refs": list(refs)}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        return [SCALE * self.scorer.score([hypothesis], [ref_kwargs["refs"]]).score, 1.0]


def _check_streams(references: Sequence[Sequence[str | None]]) -> list[list[str | None]]:
    """Return checked streams of references as lists; raise `InputError` for texts instead of streams."""
    streams = check_rows(references, "references", nested=True, optional=True)
    if any(not isinstance(stream, list) for stream in streams):
        raise InputError(f"references are texts; expected a list of streams. {STREAMS}")
    return streams


def short_name(spec: MetricSpec) -> str:
    """Name a metric with the keys that differ from its default (`keys_to_set`).

    >>> from twmd_registry.registry.spec import make_spec
    >>> short_name(make_spec("twmd", temperature=0.2, layer=3))
    'twmd[layer=3,temperature=0.2]'
    """
    if spec.members:
        return str(spec.metric)
    changed = [f"{name}={text}" for name, text in keys_to_set(spec).items()]
    return f"{spec.metric}[{','.join(changed)}]" if changed else str(spec.metric)


METRICS = metric_classes(SacreBLEUMetric, __name__)
"""Classes by metric. They are also attributes of this module, such as ``TWMD``."""
globals().update({kind.__name__: kind for kind in METRICS.values()})

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[SacreBLEUMetric]: ...
