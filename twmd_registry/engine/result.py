"""`ScoreSet`: the result of scoring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from twmd_registry.engine.alignment import Alignment
from twmd_registry.errors import InputError, SpecError
from twmd_registry.registry.names import OUTPUTS, MetricName
from twmd_registry.registry.signature import Signature
from twmd_registry.template import render

if TYPE_CHECKING:
    import pandas as pd


SIDE: dict[str | None, int] = {None: 0} | {output: row for row, output in enumerate(OUTPUTS)}
"""By output, the row of *the* scores in scores by side: an array of shape (3, pairs) or (3, segments) with precision,
recall and F1 of a two-sided metric; for a metric without outputs, of shape (1, pairs) or (1, segments).
"""


class Counts(NamedTuple):
    """Counts of texts that a reader of a score should know about.

    Attributes:
        segments: Segments scored.
        truncated: Distinct texts that were longer than the limit and lost their end.
        empty: Predictions and references without a token.
        unknown: Distinct texts of which more than a tenth of the tokens are unknown: the encoder's vocabulary does not
            hold them.
        repeated: Predictions and references that had occurred before and were not encoded again.
        oov: Tokens of distinct texts that the vocabulary does not hold: unknown tokens of an encoder, or words that
            have no vector in a table of word vectors and were left out.
        foreign: Letters of all texts in scripts that the model does not read, where a preset names those it
            reads.
        letters: Letters of all texts, by script, the most frequent first.
        sentences: With ``align=sentences``, the numbers of ``links``, ``unmatched_predictions`` (sentences of
            predictions without a link) and ``unmatched_references``, over all pairs of prediction and reference.
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
        """Return all counts by name, those of letters by script: ``letters_Latin``."""
        letters = {f"letters_{script}": number for script, number in self.letters.items()}
        return {name: getattr(self, name) for name in COUNTS} | dict(self.sentences) | letters


COUNTS = Counts._fields[:-2]
"""The counts that are single numbers."""


class DocumentScore(NamedTuple):
    """The score of one document.

    Attributes:
        segments: Its segments.
        score: Their corpus score; for this package's metrics, the mean of their scores.
        mean: Mean of the bootstrap resamples of its segments; None for a document of one segment.
        ci: Half the width of their central 95%; None for a document of one segment.
    """

    segments: int
    score: float
    mean: float | None = None
    ci: float | None = None

    def as_dict(self) -> dict[str, float]:
        """Return the numbers that are there, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}


DOCUMENT_RESAMPLES, DOCUMENT_SEED = 1000, 12345
"""The resamples of a document's interval and their seed, if not given: those of SacreBLEU's intervals."""
_RESAMPLED_NUMBERS = 1 << 22
"""Numbers that are resampled at once."""


def score_documents(
    statistics: np.ndarray,
    documents: Sequence[str],
    corpus_score: Callable[[np.ndarray], np.ndarray],
    resamples: int = DOCUMENT_RESAMPLES,
    seed: int = DOCUMENT_SEED,
) -> dict[str, DocumentScore]:
    """Return the score of every document, in the order of their first segments, from statistics of segments, shape (N,
    S), and a function from sums of them, shape (B, S), to corpus scores, shape (B,). Raises InputError where N is not
    the number of `documents`.
    """
    if len(documents) != len(statistics):
        raise InputError(
            f"there are {len(documents)} names of documents for {len(statistics)} segments: give one per segment."
        )
    rows = dict[str, list[int]]()
    for row, name in enumerate(documents):
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
"""Counts that a reader of a score should know about where they are not zero."""


@dataclass(frozen=True, repr=False)
class ScoreSet:
    """The scores of some segments: a sequence of floats, one per segment, with all that belongs to them.

    Examples:
        >>> from twmd_registry import score
        >>> scores = score(["it rains", "a cat"], ["it rains", "a dog"])
        >>> len(scores), round(scores[0], 4)
        (2, 1.0)

    Attributes:
        signature: The applied specification.
        scores: *The* score of every segment, finite, in the range that the catalogue says (``twmd explain -m METRIC``)
            unless it is rescaled by a baseline.
        precision: Hypothesis side of every segment, None for a one-sided metric.
        recall: Reference side of every segment, None for a one-sided metric.
        f1: F1 of every segment, None for a one-sided metric.
        counts: Facts about the texts, such as how many were cut.
        texts: sha256 of the scored ``[predictions, references]``, and sources if used, as compact JSON in UTF-8.
        hashes: By kind of part (``model``, ``adapter``, ``background``, ``stopwords``, ``idf``, ``baseline``), the
            whole sha256 of every part that the signature names by its first digits.
        explainer: Computes the alignment of a segment again; holds the texts and no model.
        by_reference: *The* score of every prediction with each of its references, one after the other; shape (pairs,).
            None for a mean of several scorers.
    """

    signature: Signature
    scores: list[float] = field(hash=False)
    precision: list[float] | None = field(hash=False)
    recall: list[float] | None = field(hash=False)
    f1: list[float] | None = field(hash=False)
    counts: Counts
    texts: str
    hashes: dict[str, tuple[str, ...]] = field(hash=False)
    explainer: Callable[[int, int | None], Alignment] | None = field(default=None, compare=False, repr=False)
    by_reference: np.ndarray | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Return one line: signature and corpus score."""
        return f"{self.signature} = {self.score:.4f}"

    def __repr__(self) -> str:
        """Return two lines: the corpus score with its sides and the number of segments, and the signature."""
        sides = [f"{name} {value:.4f}" for name, value in self.sides.items()]
        shown = ", ".join([f"{self.metric} {self.score:.4f}", *sides, f"n = {len(self)}"])
        return f"{type(self).__name__}({shown})\n  {self.signature}"

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        counts = {name: getattr(self.counts, name) for name in NOTED if getattr(self.counts, name)}
        return render("scores.html", "engine", scores=self, counts=counts)

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.scores)

    @overload
    def __getitem__(self, segment: int) -> float: ...
    @overload
    def __getitem__(self, segment: slice) -> list[float]: ...
    def __getitem__(self, segment: int | slice) -> float | list[float]:
        """Return *the* score of a segment, counted from 0, or a list of several."""
        return self.scores[segment]

    def __iter__(self) -> Iterator[float]:
        """Iterate over *the* scores of the segments."""
        return iter(self.scores)

    @property
    def sides(self) -> dict[str, float]:
        """Corpus precision, recall and F1 by their letters, P, R and F1; empty for a one-sided metric."""
        names = zip(("P", "R", "F1"), (self.precision, self.recall, self.f1), strict=True)
        return {name: _mean(values) for name, values in names if values is not None}

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with a row per segment and the columns ``score`` and, for a two-sided metric, ``precision``,
        ``recall`` and ``f1``; its ``attrs`` hold the signature. Needs pandas, which comes with `evaluate`.
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
        return _mean(self.scores)

    def by_document(
        self, documents: Sequence[str], resamples: int = DOCUMENT_RESAMPLES, seed: int = DOCUMENT_SEED
    ) -> dict[str, DocumentScore]:
        """Return the score of every document, the mean over its segments, with a bootstrap interval.

        Args:
            documents: The document of every segment; the segments of a document may stand anywhere.
            resamples: Bootstrap resamples of a document's segments; 0 for no intervals.
            seed: Seed of the resampling, the same for every document.

        Raises:
            InputError: Another number of names than of segments.
        """
        statistics = np.stack([self.scores, np.ones(len(self.scores))], axis=1)
        return score_documents(statistics, documents, lambda sums: sums[:, 0] / sums[:, 1], resamples, seed)

    def explain(self, segment: int, reference: int | None = None) -> Alignment:
        """Show how a segment's score came about: which hypothesis token carries how much to which reference token.

        The alignment is computed again, with everything that it depends on (its centering batch; the whole corpus, for
        ``centering=corpus`` and the idf of these texts). It is that of one pair: with ``multiref=mean`` a segment's
        score is the mean over its references, and each has an alignment. Keep the scorer open while you explain, or the
        model is loaded every time.

        Args:
            segment: Its number, from 0.
            reference: The number of one of its references, from 0; the one that scores highest if not given.

        Raises:
            InputError: No such segment or reference.
            SpecError: The metric aligns nothing (stsscore, an ensemble), or the scores come from elsewhere.
            ModelError: The model is gone, or a part has changed since.
        """
        if self.explainer is None:
            raise SpecError("these scores were not computed in this process: score the texts again to explain them.")
        return self.explainer(segment, reference)

    def as_dict(self) -> dict[str, Any]:
        """Return the flat result that `evaluate` users expect: the corpus score under the metric's name, corpus
        ``precision``, ``recall`` and ``f1`` for two-sided metrics, every count of `Counts` under its own name,
        per-segment ``scores``, and ``signature``.
        """
        result: dict[str, Any] = {str(self.metric): self.score}
        for output in OUTPUTS:
            values = getattr(self, output)
            if values is not None:
                result[str(output)] = _mean(values)
        return result | self.counts.as_dict() | {"scores": list(self.scores), "signature": str(self.signature)}


def merge_hashes(several: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """Return the hashes of several score sets by kind of part, each once."""
    merged = dict[str, dict[str, None]]()
    for hashes in several:
        for kind, sums in hashes.items():
            merged.setdefault(kind, {}).update(dict.fromkeys(sums))
    return {kind: tuple(sums) for kind, sums in merged.items()}


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(np.asarray(values, dtype=np.float64)))
