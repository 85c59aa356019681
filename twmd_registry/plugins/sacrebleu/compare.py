"""Compare systems side by side by our metrics and SacreBLEU's own, with paired tests and SacreBLEU's intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sacrebleu.metrics import METRICS as LEXICAL
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import estimate_ci

from twmd_registry.engine.input_warnings import check_sample
from twmd_registry.engine.result import DOCUMENT_RESAMPLES, score_documents
from twmd_registry.errors import InputError, SpecError
from twmd_registry.plugins.sacrebleu.metric import METRICS, SCALE, EmbeddingSignature, SacreBLEUMetric
from twmd_registry.progress import Progress, expect
from twmd_registry.record.content import (
    InputFile,
    MetricColumn,
    Record,
    Resampling,
    SystemComparison,
    SystemScore,
    cell_of,
    read_record,
)
from twmd_registry.record.significance import (
    COUNT_ROUNDING,
    MEAN_ROUNDING,
    bootstrap,
    draw_segments,
    draw_swaps,
    randomise,
    score_resamples,
)
from twmd_registry.registry.diff import labels_of
from twmd_registry.registry.names import LEXICAL_NAMES
from twmd_registry.registry.options import Parts, RunOptions

if TYPE_CHECKING:  # SacreBLEU's own metrics, which are compared in the same table, need no torch
    from twmd_registry.engine.pairs import Segments
    from twmd_registry.record.verify import ScoredMetric, Systems, Verification

Streams = list[list[str | None]]
MOST_RESAMPLES = 1_000_000
"""A record of somebody else may ask for more, which would fill the memory."""


def compare_systems(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[ScoredMetric],
    *,
    resampling: Resampling | None = None,
    short: bool = False,
    segments: bool = False,
    keep_resamples: bool = False,
    documents: Sequence[str] = (),
    progress: Progress | None = None,
) -> SystemComparison:
    """Compare systems (names and predictions, the baseline first) that were scored against the same references.

    `metrics` are, in the order of the columns, ours with their scores of these systems (on their own scale, to 1) and
    names of SacreBLEU's (to 100), of `LEXICAL_NAMES`. With `segments` SacreBLEU's score every segment, too; with
    `documents`, one per segment, they score each as a small corpus. `keep_resamples` fills `SystemScore.resampled`.
    `progress` is called twice for every metric: when it has scored, and when it is tested.
    """
    resampling = resampling or Resampling()
    check_resampling(resampling, len(systems), len(references))
    numbers = range(max(1, *map(len, references)))  # SacreBLEU's orientation: None where a segment has fewer
    streams = [[texts[k] if k < len(texts) else None for texts in references] for k in numbers]
    report = progress or (lambda _done: None)
    expect(progress, 2 * len(metrics))
    scored = []
    for metric in metrics:
        scored.append(_score(metric, streams, [texts for _, texts in systems], references if segments else None))
        report(1)
    ours = iter(labels_of([metric[0].spec for metric in metrics if not isinstance(metric, str)]))
    columns = []
    for metric, (scorer, cells) in zip(metrics, scored, strict=True):
        label = LEXICAL_NAMES[metric] if isinstance(metric, str) else next(ours)
        signature, tested = _resample(scorer, systems, cells, resampling, keep_resamples=keep_resamples)
        tested = _add_documents(tested, metric, scorer, systems, documents=documents, resampling=resampling)
        columns.append(_column(scorer, label, signature, tested, short=short))
        report(1)
    resampling = replace(resampling, resamples=0 if resampling.test == "bs" else resampling.resamples)
    kept = resampling if resampling.test or resampling.resamples or documents else None
    return SystemComparison(tuple(name for name, _ in systems), tuple(columns), kept, tuple(documents))


def check_resampling(resampling: Resampling, systems: int, segments: int) -> None:
    """Refuse impossible resampling (SpecError), or that of a single segment (InputError); warn of few segments."""
    if max(resampling.samples, resampling.resamples) > MOST_RESAMPLES:
        raise SpecError(f"expected at most {MOST_RESAMPLES:,} resamples.")
    if resampling.test and systems < 2:
        raise SpecError("a paired test compares systems: give two or more after -i.")
    if resampling.test == "bs" and resampling.resamples not in {0, resampling.samples}:
        numbers = f"--paired-bs-n {resampling.samples} and --confidence-n {resampling.resamples}"
        raise SpecError(f"the paired bootstrap has intervals of its own resamples: give one number, not {numbers}.")
    if resampling.test or resampling.resamples:
        check_sample(segments)


def _score(
    metric: ScoredMetric,
    streams: Streams,
    predictions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]] | None,
) -> tuple[Metric, list[SystemScore]]:
    """Return a metric in SacreBLEU's form and a cell per system; with references, also segments of SacreBLEU's."""
    if isinstance(metric, str):
        return _lexical(metric, streams), [_lexical_cell(metric, streams, texts, references) for texts in predictions]
    scorer, sets = metric
    ours = METRICS[scorer.requested.metric](references=streams, scorer_used=scorer)
    ours.checked_sample = len(streams[0])
    return ours, [cell_of(scores) for scores in sets]


def _lexical(name: str, streams: Streams, **settings: bool) -> Metric:
    if None in streams[0]:
        raise InputError(f"SacreBLEU's {name} compares with references: give them, or leave it out.")
    metric: Metric = LEXICAL[name.upper()](references=streams, **settings)
    return metric


def _lexical_cell(
    name: str, streams: Streams, system: Sequence[str], references: Sequence[Sequence[str]] | None
) -> SystemScore:
    """Score a system by one of SacreBLEU's metrics; its segments only where references are given by segment."""
    cell = SystemScore(float(_lexical(name, streams).corpus_score(system, None).score), {}, (), {})
    if references is None:
        return cell
    # Sentences have a metric of their own, as on SacreBLEU's command line: BLEU has settings for them.
    metric = _lexical(name, streams, **({"effective_order": True} if name == "bleu" else {}))
    return replace(
        cell,
        scores=tuple(
            float(metric.sentence_score(text, list(texts)).score)
            for text, texts in zip(system, references, strict=True)
        ),
    )


def _column(metric: Metric, label: str, signature: Any, cells: tuple[SystemScore, ...], *, short: bool) -> MetricColumn:
    if isinstance(signature, EmbeddingSignature):
        shown, long = (signature.whole(short=form) for form in (short, False))
        return MetricColumn(label, shown, hundred=False, cells=cells, long_signature=long)
    shown, long = (f"{label}|{signature.format(short=form)}" for form in (short, False))
    return MetricColumn(
        label, shown, hundred=True, cells=cells, errors=isinstance(metric, LEXICAL["TER"]), long_signature=long
    )


def _resample(
    metric: Metric,
    systems: Sequence[tuple[str, Sequence[str]]],
    cells: list[SystemScore],
    resampling: Resampling,
    *,
    keep_resamples: bool,
) -> tuple[Any, tuple[SystemScore, ...]]:
    """Add a test or intervals to a metric's cells, where asked for; return its signature, too.

    What is drawn, intervals and signatures are SacreBLEU's; the p-values are those of `randomise` and `bootstrap`.
    """
    ours, test, seed = isinstance(metric, SacreBLEUMetric), resampling.test, resampling.seed
    scale, tolerance = (SCALE, SCALE * MEAN_ROUNDING) if ours else (1.0, SCALE * COUNT_ROUNDING)
    resamples = resampling.samples if test == "bs" else resampling.resamples
    if not test and not resamples:
        return metric.get_signature(), tuple(cells)

    def score_of(sums: np.ndarray) -> np.ndarray:
        return np.array([metric._compute_score_from_stats(row).score for row in sums.tolist()])  # noqa: SLF001

    if ours:
        statistics = [np.stack([SCALE * np.array(cell.scores), np.ones(len(cell.scores))], axis=1) for cell in cells]
    else:
        extract = metric._extract_corpus_statistics  # noqa: SLF001
        statistics = [np.array(extract(texts, None), np.float64) for _, texts in systems]
    segments = len(statistics[0])
    drawn = draw_segments(resamples, segments, np.random.default_rng(seed))
    of_systems, swaps = drawn, None
    if test == "ar":  # SacreBLEU draws the resamples of all systems but the first after the swaps
        rng = np.random.default_rng(seed)
        swaps = draw_swaps(resampling.samples, segments, rng)
        of_systems = draw_segments(resamples, segments, rng)
    baseline, resampled = statistics[0], list[np.ndarray]()
    observed = score_of(np.stack([values.sum(axis=0) for values in statistics]))  # (systems,)
    tested = []
    for k, (cell, values) in enumerate(zip(cells, statistics, strict=True)):
        changes: dict[str, Any] = {}
        if resamples:
            resampled.append(score_resamples(values, of_systems if k else drawn, score_of))
            mean, ci = (float(value) / scale for value in estimate_ci(resampled[k]))
            changes |= {"mean": mean, "ci": ci}
        if k and test == "bs":
            differences, observed_difference = resampled[k] - resampled[0], float(observed[k] - observed[0])
            changes["p_value"] = bootstrap(differences, observed_difference, segments, tolerance)
        elif k and swaps is not None:
            changes["p_value"] = randomise(baseline, values, swaps, score_of, tolerance)
        if keep_resamples and test == "bs":
            changes["resampled"] = tuple((resampled[k] / scale).tolist())
        tested.append(replace(cell, **changes))
    signature = metric.get_signature()
    signed = {"seed": seed} | ({test: resampling.samples} if test else {}) | ({"bs": resamples} if resamples else {})
    for name, value in signed.items():
        signature.update(name, str(value))
    return signature, tuple(tested)


def _add_documents(
    cells: tuple[SystemScore, ...],
    metric: ScoredMetric,
    scorer: Metric,
    systems: Sequence[tuple[str, Sequence[str]]],
    *,
    documents: Sequence[str],
    resampling: Resampling,
) -> tuple[SystemScore, ...]:
    """Add the scores of documents, if there are some, to a metric's cells; to SacreBLEU's a document is a corpus."""
    if not documents:
        return cells
    draws = (resampling.samples if resampling.test == "bs" else resampling.resamples) or DOCUMENT_RESAMPLES

    def corpus_scores(sums: np.ndarray) -> np.ndarray:
        return np.array([scorer._compute_score_from_stats(row).score for row in sums.tolist()])  # noqa: SLF001

    if isinstance(metric, str):
        statistics = [np.array(scorer._extract_corpus_statistics(texts, None)) for _, texts in systems]  # noqa: SLF001
        by_document = [score_documents(sums, documents, corpus_scores, draws, resampling.seed) for sums in statistics]
    else:
        by_document = [scores.by_document(documents, draws, resampling.seed) for scores in metric[1]]
    return tuple(replace(cell, documents=scores) for cell, scores in zip(cells, by_document, strict=True))


def verify_record(
    record: Record | str | Path,
    systems: Systems,
    *,
    inputs: Sequence[InputFile] = (),
    options: RunOptions | None = None,
    parts: Parts | None = None,
    tolerance: float | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Score a record's texts again and compare every segment, every test and every interval.

    Args:
        record: The record, or its file.
        systems: The texts of its systems, in its order: predictions, references (None for none) and maybe sources, as
            `Scorer.score` takes them.
        inputs: The files of the texts, to report which of them changed.
        options: Device, batch size and caches.
        parts: Local places of model, adapter and mean vector, if not under the names in the signatures.
        tolerance: Largest difference of a score, from 0; None for that of the number format (1e-5 in float32).
        progress: As for `score_all`, over all systems.

    Returns:
        A check of every result of every system, in the record's order, and what has changed since.

    Raises:
        FileError: As for `read_record`.
        InputError: Another number of systems or segments than in the record, or texts that cannot be scored.
        SpecError: A part that no signature of the record has, or no such device here.
        MissingExtraError: As for `Scorer.score`.
    """
    from twmd_registry.record.verify import check_record

    read = record if isinstance(record, Record) else read_record(record)
    return check_record(
        read,
        systems,
        _compare_again,
        inputs=inputs,
        options=options,
        parts=parts,
        tolerance=tolerance,
        progress=progress,
    )


def _compare_again(record: Record, texts: Sequence[Segments], metrics: Sequence[ScoredMetric]) -> SystemComparison:
    """Compare the systems of a record as they were compared when it was written."""
    references = texts[0].references
    if any(segments.references != references for segments in texts):
        raise InputError("the systems hold different references")
    return compare_systems(
        [(system.name, segments.predictions) for system, segments in zip(record.systems, texts, strict=True)],
        references,
        metrics,
        resampling=record.resampling,
        documents=record.documents,
        segments=any(result.is_lexical and result.scores for system in record.systems for result in system.results),
    )
