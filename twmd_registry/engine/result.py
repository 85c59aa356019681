"""`ScoreSet`: the result of scoring."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from twmd_registry.engine.alignment import Alignment
from twmd_registry.errors import InputError, SpecError, check_types, shown
from twmd_registry.registry.names import OUTPUTS, MetricName
from twmd_registry.registry.references import is_missing
from twmd_registry.registry.signature import Signature
from twmd_registry.template import render

if TYPE_CHECKING:
    import pandas as pd


SIDE: dict[str | None, int] = {None: 0} | {output: row for row, output in enumerate(OUTPUTS)}
"""Index of *the* score by output, among precision, recall and F1 or in the only row of a one-sided metric."""


class Counts(NamedTuple):
    """Counts that help to interpret a score.

    Attributes:
        segments: Segments scored.
        truncated: Distinct texts that were cut at the length limit.
        empty: Predictions and references without a token.
        unknown: Distinct texts with more than 10% unknown tokens.
        repeated: Repeated predictions and references, which were not encoded again.
        oov: Out-of-vocabulary tokens in distinct texts: an encoder's unknown tokens, or words without a word vector,
            which are left out.
        foreign: Letters in scripts that the model does not read; 0 if no preset lists its scripts.
        letters: Letters by script, the most frequent first.
        sentences: With ``align=sentences``, counts over all pairs: ``links``, ``unmatched_predictions`` and
            ``unmatched_references`` (sentences without a link).
    """

    segments: int
    truncated: int
    empty: int
    unknown: int
    repeated: int
    oov: int
    foreign: int
    letters: dict[str, int]
    sentences: Mapping[str, int] = {}

    def __hash__(self) -> int:
        """Hash the counts by name."""
        return hash(tuple(sorted(self.as_dict().items())))

    def as_dict(self) -> dict[str, int]:
        """Return all counts by name; letters by script, such as ``letters_Latin``."""
        letters = {f"letters_{script}": number for script, number in self.letters.items()}
        return {name: getattr(self, name) for name in COUNTS} | dict(self.sentences) | letters


COUNTS = Counts._fields[:-2]
"""The counts that are single numbers."""


class DocumentScore(NamedTuple):
    """The score of one document.

    Attributes:
        segments: Number of segments.
        score: Corpus score of the segments; for this package's metrics, the mean.
        mean: Mean of bootstrap resamples; None for a single segment.
        ci: Half the width of the central 95% of the resamples; None for a single segment.
    """

    segments: int
    score: float
    mean: float | None = None
    ci: float | None = None

    def as_dict(self) -> dict[str, float]:
        """Return the numbers that are not None, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}


DOCUMENT_RESAMPLES, DOCUMENT_SEED = 1000, 12345
"""Default resamples and seed of a document's interval, as in SacreBLEU."""
_RESAMPLED_NUMBERS = 1 << 22
"""Maximum numbers to resample together."""


def score_documents(
    statistics: np.ndarray,
    documents: Sequence[str],
    corpus_score: Callable[[np.ndarray], np.ndarray],
    resamples: int = DOCUMENT_RESAMPLES,
    seed: int = DOCUMENT_SEED,
) -> dict[str, DocumentScore]:
    """Score documents, in the order of their first segments.

    Args:
        statistics: A row per segment; shape (N, S).
        documents: The document of each segment.
        corpus_score: Maps sums of rows, shape (B, S), to scores, shape (B,).
        resamples: As for `ScoreSet.by_document`.
        seed: As for `ScoreSet.by_document`.

    Raises:
        InputError: N differs from the number of `documents`.
    """
    if len(documents) != len(statistics):
        raise InputError(f"{len(documents)} names of documents for {len(statistics)} segments: pass one per segment.")
    rows = dict[str, list[int]]()
    for row, name in enumerate(documents):
        if is_missing(name) or not isinstance(name, Hashable):
            raise InputError(f"documents[{row}] must be a name; got {shown(name)}.")
        rows.setdefault(name, []).append(row)
    result = dict[str, DocumentScore]()
    for name, segments in rows.items():
        values = statistics[segments]  # (n, S)
        mean = ci = None
        if len(segments) > 1 and resamples:
            draws, step = np.random.default_rng(seed), max(1, _RESAMPLED_NUMBERS // values.size)
            sizes = [min(step, resamples - start) for start in range(0, resamples, step)]
            sums = [values[draws.integers(len(segments), size=(size, len(segments)))].sum(axis=1) for size in sizes]
            resampled = corpus_score(np.concatenate(sums))
            low, high = np.quantile(resampled, (0.025, 0.975))
            mean, ci = float(resampled.mean()), float(high - low) / 2
        result[name] = DocumentScore(len(segments), float(corpus_score(values.sum(axis=0, keepdims=True))[0]), mean, ci)
    return result


NOTED = ("truncated", "empty", "unknown", "oov", "foreign")
"""Counts to show with a score."""
MAX_NOTEBOOK_SEGMENTS = 20_000
"""Maximum segments for an interval in a notebook, which takes a second."""


@dataclass(frozen=True, repr=False, eq=False)
class ScoreSet:
    """Scores of segments: a sequence of floats with signature and counts.

    Examples:
        >>> from twmd_registry import score
        >>> scores = score(["it rains", "a cat"], ["it rains", "a dog"])
        >>> len(scores), round(scores[0], 4)
        (2, 1.0)

    Attributes:
        signature: The applied specification.
        by_side: Precision, recall and F1 of each segment, shape (3, segments); *the* score of a one-sided metric, shape
            (1, segments).
        counts: Facts about the texts, such as how many were cut.
        texts: sha256 of ``[predictions, references]``, with sources if used, as compact JSON in UTF-8.
        hashes: Full sha256 of each file that the signature names by a short hash, by kind (``model``, ``adapter``,
            ``background``, ``stopwords``, ``idf``, ``baseline``).
        explainer: Computes the alignment of a segment again; keeps the texts but no model.
        by_reference: *The* score of each prediction with each of its references, in order; shape (pairs,). None for an
            average of several scorers.
    """

    signature: Signature
    by_side: np.ndarray
    counts: Counts
    texts: str
    hashes: dict[str, tuple[str, ...]]
    explainer: Callable[[int, int | None], Alignment] | None = None
    by_reference: np.ndarray | None = None

    @property
    def values(self) -> np.ndarray:
        """*The* score of each segment, as `scores`; shape (segments,)."""
        values: np.ndarray = self.by_side[SIDE[self.signature.spec.output] if len(self.by_side) > 1 else 0]
        return values

    @cached_property
    def scores(self) -> list[float]:
        """*The* score of each segment. It is finite and, without a baseline, in the metric's range (``twmd explain -m
        METRIC``).
        """
        scores: list[float] = self.values.tolist()
        return scores

    @cached_property
    def precision(self) -> list[float] | None:
        """Hypothesis side of each segment; None for a one-sided metric."""
        return self._side("precision")

    @cached_property
    def recall(self) -> list[float] | None:
        """Reference side of each segment; None for a one-sided metric."""
        return self._side("recall")

    @cached_property
    def f1(self) -> list[float] | None:
        """F1 of each segment; None for a one-sided metric."""
        return self._side("f1")

    def _side(self, name: str) -> list[float] | None:
        return self.by_side[SIDE[name]].tolist() if len(self.by_side) > 1 else None

    def __eq__(self, other: object) -> bool:
        """Return whether both have equal scores, signatures, counts and texts."""
        if not isinstance(other, ScoreSet):
            return NotImplemented
        facts = [(scores.signature, scores.counts, scores.texts, scores.hashes) for scores in (self, other)]
        return facts[0] == facts[1] and np.array_equal(self.by_side, other.by_side)

    def __hash__(self) -> int:
        """Hash the signature, the counts and the texts."""
        return hash((self.signature, self.counts, self.texts))

    def __str__(self) -> str:
        """Return one line: signature and corpus score."""
        return f"{self.signature} = {self.score:.4f}"

    def __repr__(self) -> str:
        """Return two lines: corpus score with sides and number of segments; signature."""
        sides = [f"{name} {value:.4f}" for name, value in self.sides.items()]
        shown = ", ".join([f"{self.metric} {self.score:.4f}", *sides, f"n = {len(self)}"])
        return f"{type(self).__name__}({shown})\n  {self.signature}"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: score with bootstrap interval, sides, nonzero counts, and signature."""
        resamples = DOCUMENT_RESAMPLES if len(self) <= MAX_NOTEBOOK_SEGMENTS else 0
        (whole,) = self.by_document([""] * len(self), resamples).values()
        counts = {name: count for name in NOTED if (count := getattr(self.counts, name))}
        return render("scores.html", "engine", scores=self, whole=whole, counts=counts)

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.values)

    @overload
    def __getitem__(self, segment: int) -> float: ...
    @overload
    def __getitem__(self, segment: slice) -> list[float]: ...
    @check_types(segment=Integral | slice)
    def __getitem__(self, segment: int | slice) -> float | list[float]:
        """Return *the* score of a segment, counted from 0, or a list of several."""
        return self.scores[segment]

    def __iter__(self) -> Iterator[float]:
        """Iterate over *the* scores of the segments."""
        return iter(self.scores)

    @property
    def sides(self) -> dict[str, float]:
        """Corpus precision, recall and F1 by the names P, R and F1; empty for a one-sided metric."""
        rows = self.by_side if len(self.by_side) > 1 else ()
        return {name: float(row.mean()) for name, row in zip(("P", "R", "F1"), rows, strict=False)}

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with a row per segment and the columns ``score`` and, for a two-sided metric, ``precision``,
        ``recall`` and ``f1``; its ``attrs`` contain the signature. Needs pandas, which comes with `evaluate`.
        """
        import pandas as pd

        columns = {"score": self.scores} | {str(name): getattr(self, name) for name in OUTPUTS}
        frame = pd.DataFrame({name: values for name, values in columns.items() if values is not None})
        frame.attrs["signature"] = str(self.signature)
        return frame

    @property
    def metric(self) -> MetricName:
        """The metric."""
        return self.signature.spec.metric

    @property
    def score(self) -> float:
        """The corpus score: the mean over segments."""
        return float(self.values.mean())

    @check_types(documents=Iterable, resamples=Integral, seed=Integral)
    def by_document(
        self, documents: Sequence[str], resamples: int = DOCUMENT_RESAMPLES, seed: int = DOCUMENT_SEED
    ) -> dict[str, DocumentScore]:
        """Return the mean score of each document, with a bootstrap interval.

        Args:
            documents: The document of each segment, in any order.
            resamples: Bootstrap resamples per document; 0 for no interval.
            seed: Seed of the resampling, the same for each document.

        Raises:
            InputError: The number of documents differs from the number of segments, or an argument is negative.
            ArgumentError: An argument of the wrong type.
        """
        if min(resamples, seed) < 0:
            raise InputError(f"expected non-negative numbers; got resamples={resamples}, seed={seed}.")
        statistics = np.stack([self.values, np.ones(len(self))], axis=1)
        return score_documents(statistics, list(documents), lambda sums: sums[:, 0] / sums[:, 1], resamples, seed)

    @check_types(segment=Integral, reference=Integral | None)
    def explain(self, segment: int, reference: int | None = None) -> Alignment:
        """Show how a score arises: how much weight each hypothesis token sends to each reference token.

        The alignment is computed again, with the centering batch or corpus that it depends on. It is for a single
        reference; with ``multiref=mean`` the segment's score is the mean over all references. Keep the scorer open
        while you explain scores, or each call loads the model.

        Args:
            segment: Index of the segment.
            reference: Index of the reference; by default the one with the highest score.

        Raises:
            InputError: No such segment or reference.
            ArgumentError: An index that is not an integer.
            SpecError: The metric has no alignment (stsscore, an ensemble), or the scores come from another process.
            ModelError: The model or another file is missing or has changed.
        """
        if self.explainer is None:
            raise SpecError("these scores were not computed in this process: score the texts again to explain them.")
        return self.explainer(segment, reference)

    def as_dict(self) -> dict[str, Any]:
        """Return a flat dict, like `evaluate`: the corpus score under the metric's name, corpus ``precision``,
        ``recall`` and ``f1`` (two-sided metrics), the counts, per-segment ``scores``, and ``signature``.
        """
        result: dict[str, Any] = {str(self.metric): self.score}
        result |= zip(map(str, OUTPUTS), self.sides.values(), strict=False)
        return result | self.counts.as_dict() | {"scores": list(self.scores), "signature": str(self.signature)}


def merge_hashes(several: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """Return the distinct hashes of several score sets, by kind of file."""
    merged = dict[str, dict[str, None]]()
    for hashes in several:
        for kind, sums in hashes.items():
            merged.setdefault(kind, {}).update(dict.fromkeys(sums))
    return {kind: tuple(sums) for kind, sums in merged.items()}
