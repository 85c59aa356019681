"""Score segments with several metrics: ours, SacreBLEU's and ROUGE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import NamedTuple

from twmd_registry.comparison.lexical import settings_of, warn_about_words
from twmd_registry.errors import InputError, missing_extra
from twmd_registry.judgments.official import LabelledScores
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.progress import Progress, expect, split_progress
from twmd_registry.registry.diff import labels_of
from twmd_registry.registry.metric_spec import MetricSpec, write_spec
from twmd_registry.registry.options import RunOptions

Compared = MetricSpec | str | LabelledScores
"""A metric of ours, a name of `twmd_registry.registry.names.SEGMENT_LEXICAL`, or published scores of a shared task."""


def names_of(metrics: Iterable[Compared]) -> str:
    """Return the canonical names of metrics, comma-separated."""
    return ",".join(map(_name_of, metrics))


def _name_of(metric: Compared) -> str:
    if isinstance(metric, MetricSpec):
        return write_spec(metric)
    return metric if isinstance(metric, str) else metric.signature


def score_lexically(name: str, rated: RatedSegments, progress: Progress | None = None) -> tuple[tuple[float, ...], str]:
    """Score every segment from 0 to 1 with a metric of `SEGMENT_LEXICAL`; return the scores and the signature.

    BLEU scores sentences with its effective order. ROUGE is the F1 of unigrams, bigrams or the longest common
    subsequence, without stemming, against the best of several references.
    """
    references = [[texts] if isinstance(texts, str) else list(texts) for texts in rated.references]
    max_references = max(map(len, references))
    if name.startswith("rouge"):
        score, signature = _rouge(name, max_references)
    else:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF

        base, settings = ("chrf", {"word_order": 2}) if name == "chrf++" else settings_of(name)
        metric = BLEU(**settings | {"effective_order": True}) if base == "bleu" else CHRF(**settings)
        if base == "bleu":
            warn_about_words(name, references)
        ends = min(references, key=len), max(references, key=len)
        streams = [[texts[k] if k < len(texts) else None for texts in ends] for k in range(max_references)]
        metric.corpus_score(["", ""], streams)  # type: ignore[arg-type]  # completes the signature
        signature = f"{name}|{metric.get_signature().format()}"

        def score(text: str, texts: list[str]) -> float:
            return float(metric.sentence_score(text, texts).score / 100)

    scores = []
    for text, texts in zip(rated.predictions, references, strict=True):
        scores.append(score(text, texts))
        if progress:
            progress(1)
    return tuple(scores), signature


def _rouge(name: str, references: int) -> tuple[Callable[[str, list[str]], float], str]:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise missing_extra("ROUGE needs rouge-score", "rouge") from error
    scorer = RougeScorer([name])
    signature = f"{name}|nrefs:{references}|stemmer:no|version:{version('rouge-score')}"
    return lambda text, texts: float(scorer.score_multi(texts, text)[name].fmeasure), signature


class SideBySide(NamedTuple):
    """Metrics as applied, the scores of each, and a warning for each that was trained or tuned on the data."""

    applied: tuple[Compared, ...]
    scored: tuple[LabelledScores, ...]
    overlaps: tuple[str, ...]


def score_side_by_side(
    metrics: Sequence[Compared], rated: RatedSegments, data: str, options: RunOptions, progress: Progress | None = None
) -> SideBySide:
    """Score every segment with every metric, encoding each text once per model."""
    specs = [metric for metric in metrics if isinstance(metric, MetricSpec)]
    segments = len(rated.predictions)
    expect(progress, segments)
    stage = split_progress(progress, segments, bool(specs) + sum(isinstance(metric, str) for metric in metrics))
    scored, overlaps = dict[Compared, tuple[Compared, LabelledScores]](), tuple[str, ...]()
    if specs:  # SacreBLEU's metrics alone need no torch
        from twmd_registry.engine.scorer import Scorer, score_with
        from twmd_registry.metaeval.overlap import warn_about_overlap

        scorers = [Scorer(spec, options) for spec in specs]
        with stage(segments) as report:
            sets = score_with(scorers, rated.predictions, rated.references, sources=rated.source, progress=report)
        labels = labels_of([scores.signature.spec for scores in sets])
        overlaps = warn_about_overlap(labels, scorers, rated.references, data)
        for spec, scores, label in zip(specs, sets, labels, strict=True):
            scored[spec] = scores.signature.spec, LabelledScores(label, str(scores.signature), tuple(scores.scores))
    else:
        from twmd_registry.engine.input_warnings import check_texts
        from twmd_registry.engine.pairs import check_segments, make_pairs

        check_texts((), make_pairs(check_segments(rated.predictions, rated.references)), range(segments))
    for metric in metrics:
        if isinstance(metric, str):
            with stage(segments) as report:
                segment_scores, signature = score_lexically(metric, rated, report)
            scored[metric] = metric, LabelledScores(metric, signature, segment_scores)
        elif isinstance(metric, LabelledScores):
            if len(metric.scores) != segments:
                raise InputError(f"{metric.label} has {len(metric.scores)} published scores for {segments} segments.")
            scored[metric] = metric, metric
    applied, results = zip(*(scored[metric] for metric in metrics), strict=True)
    return SideBySide(applied, results, overlaps)
