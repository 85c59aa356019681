"""Compare systems with our metrics and SacreBLEU's, with paired tests and SacreBLEU's intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from sacrebleu.metrics import METRICS as LEXICAL
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import estimate_ci

from twmd_registry.comparison import significance
from twmd_registry.comparison.cells import MetricColumn, Resampling, SystemScore, cell_of
from twmd_registry.comparison.external import ExternalScores, GivenScores, external_scores
from twmd_registry.comparison.lexical import canonical_lexical, is_lexical, label_of, settings_of, warn_about_words
from twmd_registry.comparison.verdict import SystemComparison
from twmd_registry.engine.input_warnings import check_sample
from twmd_registry.engine.pairs import check_rows, check_segments
from twmd_registry.engine.result import DOCUMENT_RESAMPLES, score_documents
from twmd_registry.errors import InputError, SpecError, check_types
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.diff import labels_of
from twmd_registry.registry.names import LEXICAL_NAMES

if TYPE_CHECKING:  # SacreBLEU's metrics alone need no torch
    from twmd_registry.engine.result import ScoreSet
    from twmd_registry.engine.scorer import Scorer

ScoredMetric: TypeAlias = "tuple[Scorer, Sequence[ScoreSet]] | str | ExternalScores"
"""A metric's name, one of our metrics with every system's scores, or another program's scores."""
SCALE = 100.0
"""SacreBLEU's scale, on which intervals are computed."""
Streams = list[list[str | None]]
PValues: TypeAlias = tuple[tuple[float | None, ...], ...]
MAX_RESAMPLES = 1_000_000
"""Limit for records from strangers, which could fill the memory."""


@check_types(
    systems=Iterable,
    references=Iterable,
    metrics=Iterable,
    resampling=Resampling | None,
    documents=Iterable,
    scores=Mapping | None,
    progress=Callable | None,
)
def compare_systems(
    systems: Sequence[tuple[str, Sequence[str]]] | Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[ScoredMetric],
    *,
    resampling: Resampling | None = None,
    short: bool = False,
    segments: bool = False,
    keep_resamples: bool = False,
    against_all: bool = False,
    documents: Sequence[str] = (),
    scores: Mapping[str, GivenScores] | None = None,
    progress: Progress | None = None,
) -> SystemComparison:
    """Compare systems that were scored against the same references.

    Args:
        systems: Names and predictions, the baseline first.
        references: The references of every segment.
        metrics: In the order of the columns: names of our metrics, or scorers with their scores of these systems (scale
            to 1), and names of SacreBLEU's metrics (scale to 100).
        resampling: The test and intervals.
        short: Whether to show short signatures.
        segments: Whether SacreBLEU's metrics score every segment too.
        keep_resamples: Whether to fill `SystemScore.resampled`.
        against_all: Whether to test all pairs of systems and fill `MetricColumn.p_values`.
        documents: Every segment's document. SacreBLEU's metrics score each document as a small corpus.
        scores: Other programs' scores by metric, ``{"COMET": [0.8, ..]}``: one list for one system, or a list or
            mapping for several. Higher is better. They come last and get the same intervals and tests.
        progress: Called twice per metric, once scored and once tested.

    Returns:
        The table, with a column per metric.
    """
    systems = list(systems.items()) if isinstance(systems, Mapping) else systems
    resampling = resampling or Resampling()
    check_resampling(resampling, len(systems), len(references))
    checked = [(name, check_rows(texts, f"texts of {name}")) for name, texts in systems]
    for name, texts in checked:
        if len(texts) != len(references):
            raise InputError(f"system {name} has {len(texts)} texts for {len(references)} segments.")
    if any(text != [] for text in references):  # otherwise they are compared with their sources
        references = check_segments(checked[0][1], references).references
    ours: list[Any] = [
        metric
        for metric in metrics
        if not (is_lexical(metric) if isinstance(metric, str) else isinstance(metric, tuple))
    ]
    if ours:
        from twmd_registry.engine.scorer import check_scorers, score_with

        scorers = check_scorers(ours)
        sets = [score_with(scorers, texts, references) for _, texts in checked]
        made = iter(zip(scorers, zip(*sets, strict=True), strict=True))
        metrics = [next(made) if metric in ours else metric for metric in metrics]
    streams = streams_of(references)
    names = [system for system, _ in checked]
    others = [external_scores(name, values, names, len(references)) for name, values in (scores or {}).items()]
    metrics = [*(canonical_lexical(metric) if isinstance(metric, str) else metric for metric in metrics), *others]
    for metric in metrics:
        if isinstance(metric, str):
            warn_about_words(metric, references)
    report = progress or (lambda _done: None)
    expect(progress, 2 * len(metrics))
    scored = []
    for metric in metrics:
        scored.append(_make_cells(metric, streams, [texts for _, texts in checked], references if segments else None))
        report(1)
    labels = iter(labels_of([metric[0].spec for metric in metrics if not isinstance(metric, str | ExternalScores)]))
    columns = []
    for metric, cells in zip(metrics, scored, strict=True):
        if isinstance(metric, ExternalScores):
            label = metric.name
        else:
            label = label_of(metric) if isinstance(metric, str) else next(labels)
        tested: tuple[SystemScore, ...] = tuple(cells)
        p_values: PValues = ()
        if resampling.test or resampling.resamples or documents:
            sampled = make_sampled(metric, streams, [texts for _, texts in checked])
            tested, p_values = _resample(
                sampled, cells, resampling, keep_resamples=keep_resamples, against_all=against_all
            )
            tested = _add_documents(tested, metric, sampled, documents=documents, resampling=resampling)
        column = make_column(metric, label, streams, tested, resampling, short=short)
        columns.append(column._replace(p_values=p_values))
        report(1)
    resampling = replace(resampling, resamples=0 if resampling.test == "bs" else resampling.resamples)
    kept = resampling if resampling.test or resampling.resamples or documents else None
    return SystemComparison(tuple(name for name, _ in systems), tuple(columns), kept, tuple(documents))


def streams_of(references: Sequence[Sequence[str]]) -> Streams:
    """Return references in SacreBLEU's layout, with None where a segment has fewer than another."""
    numbers = range(max(1, *map(len, references)))
    return [[texts[k] if k < len(texts) else None for texts in references] for k in numbers]


def check_resampling(resampling: Resampling, systems: int, segments: int) -> None:
    """Refuse impossible resampling (SpecError) or a single segment (InputError); warn if there are few segments."""
    if max(resampling.samples, resampling.resamples) > MAX_RESAMPLES:
        raise SpecError(f"expected at most {MAX_RESAMPLES:,} resamples.")
    if resampling.test and systems < 2:
        raise SpecError("a paired test compares systems: pass two or more after -i.")
    if resampling.test == "bs" and resampling.resamples not in {0, resampling.samples}:
        numbers = f"--paired-bs-n {resampling.samples} and --confidence-n {resampling.resamples}"
        raise SpecError(f"the paired bootstrap computes intervals from its own resamples: pass one of {numbers}.")
    if resampling.test or resampling.resamples:
        check_sample(segments)


def _make_cells(
    metric: ScoredMetric,
    streams: Streams,
    predictions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]] | None,
) -> list[SystemScore]:
    """Return one cell per system. With references, SacreBLEU's metrics score segments too."""
    if isinstance(metric, str):
        return [lexical_cell(metric, streams, texts, references) for texts in predictions]
    if isinstance(metric, ExternalScores):
        return [SystemScore(float(np.mean(values)), {}, values, {}) for values in metric.scores]
    return [cell_of(scores) for scores in metric[1]]


def make_lexical(name: str, streams: Streams, **settings: bool) -> Metric:
    """Create SacreBLEU's metric from a canonical name."""
    if None in streams[0]:
        raise InputError(f"SacreBLEU's {name} needs references: pass them, or leave {name} out.")
    base, own_settings = settings_of(name)
    try:
        metric: Metric = LEXICAL[base.upper()](references=streams, **own_settings | settings)
    except (ImportError, RuntimeError, OSError) as error:  # a tokenizer is missing or cannot be downloaded
        raise SpecError(f"{name}: SacreBLEU cannot load it: {' '.join(str(error).split())}") from error
    return metric


def lexical_cell(
    name: str, streams: Streams, system: Sequence[str], references: Sequence[Sequence[str]] | None
) -> SystemScore:
    """Score a system with one of SacreBLEU's metrics, and its segments if per-segment references are passed."""
    cell = SystemScore(float(make_lexical(name, streams).corpus_score(system, None).score), {}, (), {})
    if references is None:
        return cell
    # SacreBLEU's command line scores sentences with a separate metric, because BLEU has settings for them.
    metric = make_lexical(name, streams, **({"effective_order": True} if settings_of(name)[0] == "bleu" else {}))
    results = (metric.sentence_score(text, list(texts)) for text, texts in zip(system, references, strict=True))
    return replace(cell, scores=tuple(float(result.score) for result in results))


class Sampled(NamedTuple):
    """The statistics from which a metric is resampled.

    Attributes:
        statistics: Per system, the per-segment summands of the corpus score; shape (segments, K).
        score_of: Maps sums of statistics to corpus scores on SacreBLEU's scale.
        scale: Divisor from SacreBLEU's scale to the metric's.
        tolerance: Corpus scores that differ by at most this are equal.
    """

    statistics: list[np.ndarray]
    score_of: significance.ScoreOf
    scale: float
    tolerance: float


def make_sampled(metric: ScoredMetric, streams: Streams, predictions: Sequence[Sequence[str]]) -> Sampled:
    """Return the sums of per-segment scores, or the counts of SacreBLEU's metrics."""
    if not isinstance(metric, str):
        of_systems = metric.scores if isinstance(metric, ExternalScores) else [result.scores for result in metric[1]]
        scores = [np.array(values) for values in of_systems]
        statistics = [np.stack([SCALE * values, np.ones(len(values))], axis=1) for values in scores]
        return Sampled(statistics, lambda sums: sums[:, 0] / sums[:, 1], SCALE, SCALE * significance.MEAN_ROUNDING)
    lexical = make_lexical(metric, streams)

    def score_of(sums: np.ndarray) -> np.ndarray:
        return np.array([lexical._compute_score_from_stats(row).score for row in sums.tolist()])  # noqa: SLF001

    extract = lexical._extract_corpus_statistics  # noqa: SLF001
    counts = [np.array(extract(texts, None), np.float64) for texts in predictions]
    return Sampled(counts, score_of, 1.0, SCALE * significance.COUNT_ROUNDING)


def make_column(
    metric: ScoredMetric,
    label: str,
    streams: Streams,
    cells: tuple[SystemScore, ...],
    resampling: Resampling,
    *,
    short: bool,
) -> MetricColumn:
    """Return a metric's column. Its signature includes the draws."""
    resamples = resampling.samples if resampling.test == "bs" else resampling.resamples
    drawn = ({"ar": resampling.samples} if resampling.test == "ar" else {}) | ({"bs": resamples} if resamples else {})
    draws: dict[str, Any] = {"seed": resampling.seed} | drawn if drawn else {}
    if isinstance(metric, ExternalScores):
        shown = "|".join([metric.signature, *(f"{name}:{text}" for name, text in draws.items())])
        hashed = tuple(replace(cell, hashes={"scores": metric.hashes}) for cell in cells)
        return MetricColumn(label, shown, hundred=False, cells=hashed, long_signature=shown)
    if not isinstance(metric, str):
        signature = replace(metric[1][0].signature, **draws)
        shown, long = (signature.format(short=form) for form in (short, False))
        return MetricColumn(label, shown, hundred=False, cells=cells, long_signature=long)
    lexical = make_lexical(metric, streams)
    lexical_signature: Any = lexical.get_signature()
    for name, value in draws.items():
        lexical_signature.update(name, str(value))
    head = LEXICAL_NAMES[settings_of(metric)[0]]
    shown, long = (f"{head}|{lexical_signature.format(short=form)}" for form in (short, False))
    errors = isinstance(lexical, LEXICAL["TER"])
    return MetricColumn(label, shown, hundred=True, cells=cells, errors=errors, long_signature=long)


def _resample(
    sampled: Sampled, cells: Sequence[SystemScore], resampling: Resampling, *, keep_resamples: bool, against_all: bool
) -> tuple[tuple[SystemScore, ...], PValues]:
    """Add the test and intervals to a metric's cells; with `against_all`, also return the pairwise p-values.

    Draws and intervals are SacreBLEU's. The p-values come from `randomise` and `bootstrap`.
    """
    test, seed = resampling.test, resampling.seed
    resamples = resampling.samples if test == "bs" else resampling.resamples
    if not test and not resamples:
        return tuple(cells), ()
    statistics, score_of, scale, tolerance = sampled
    segments = len(statistics[0])
    drawn = significance.draw_segments(resamples, segments, np.random.default_rng(seed))
    of_systems, swaps = drawn, None
    if test == "ar":  # SacreBLEU draws the resamples of all systems but the first after the swaps
        rng = np.random.default_rng(seed)
        swaps = significance.draw_swaps(resampling.samples, segments, rng)
        of_systems = significance.draw_segments(resamples, segments, rng)
    resampled = list[np.ndarray]()
    observed = score_of(np.stack([values.sum(axis=0) for values in statistics]))  # (systems,)

    def test_pair(i: int, j: int) -> float | None:
        """Return the p of the difference between two systems."""
        if swaps is not None:
            return significance.randomise(statistics[i], statistics[j], swaps, score_of, tolerance)
        if test != "bs":
            return None
        differences, observed_difference = resampled[j] - resampled[i], float(observed[j] - observed[i])
        unlike = int((np.abs(statistics[j] - statistics[i]) > tolerance).any(axis=1).sum())
        return significance.bootstrap(differences, observed_difference, segments, unlike, tolerance)

    tested = []
    for k, (cell, values) in enumerate(zip(cells, statistics, strict=True)):
        changes: dict[str, Any] = {}
        if resamples:
            resampled.append(significance.score_resamples(values, of_systems if k else drawn, score_of))
            mean, ci = (float(value) / scale for value in estimate_ci(resampled[k]))
            changes |= {"mean": mean, "ci": ci}
        if k:
            changes["p_value"] = test_pair(0, k)
        if keep_resamples and test == "bs":
            changes["resampled"] = tuple((resampled[k] / scale).tolist())
        tested.append(replace(cell, **changes))
    if not (against_all and test):
        return tuple(tested), ()
    indices = range(len(cells))
    p = {(i, j): test_pair(i, j) for i in indices for j in indices if i < j}
    return tuple(tested), tuple(tuple(p.get((min(i, j), max(i, j))) for j in indices) for i in indices)


def _add_documents(
    cells: tuple[SystemScore, ...],
    metric: ScoredMetric,
    sampled: Sampled,
    *,
    documents: Sequence[str],
    resampling: Resampling,
) -> tuple[SystemScore, ...]:
    """Add document scores to a metric's cells. For SacreBLEU's metrics a document is a corpus."""
    if not documents:
        return cells
    draws = (resampling.samples if resampling.test == "bs" else resampling.resamples) or DOCUMENT_RESAMPLES
    if isinstance(metric, str | ExternalScores):

        def score_of(sums: np.ndarray) -> np.ndarray:
            return sampled.score_of(sums) / sampled.scale

        by_document = [
            score_documents(sums, documents, score_of, draws, resampling.seed) for sums in sampled.statistics
        ]
    else:
        by_document = [scores.by_document(documents, draws, resampling.seed) for scores in metric[1]]
    return tuple(replace(cell, documents=scores) for cell, scores in zip(cells, by_document, strict=True))
