"""Systems side by side, by our metrics and SacreBLEU's own, with SacreBLEU's tests and intervals."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sacrebleu.metrics import METRICS as LEXICAL
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest, _bootstrap_resample

from twmd_registry.engine.input_warnings import check_sample
from twmd_registry.engine.result import ScoreSet
from twmd_registry.errors import InputError, SpecError
from twmd_registry.plugins.sacrebleu.metric import METRICS, SCALE, EmbeddingMetric, EmbeddingSignature
from twmd_registry.progress import Progress, expect
from twmd_registry.record.comparison import MetricColumn, SignificanceTest, SystemComparison, SystemScore, cell_of
from twmd_registry.registry.labels import labels_of
from twmd_registry.registry.names import LEXICAL_NAMES

if TYPE_CHECKING:
    from twmd_registry.engine.scorer import Scorer

Streams = list[list[str | None]]


class ComparisonRequest(NamedTuple):
    """What to find out beside the scores.

    Attributes:
        test: Compare every system with the first.
        resamples: Bootstrap resamples for confidence intervals, 0 for none. With a paired bootstrap, 0 or the test's
            number: the intervals come from the test's own resamples.
        seed: Of the resampling.
        short: Write signatures in their short form.
        segments: Score every segment by SacreBLEU's metrics, too, which takes them as long as the corpus (ours have
            them anyway).
        keep_resamples: Keep the score of every resample of the paired bootstrap in `SystemScore.resampled`.
    """

    test: SignificanceTest | None = None
    resamples: int = 0
    seed: int = 12345
    short: bool = False
    segments: bool = False
    keep_resamples: bool = False


class _Seed(int):
    """A seed that counts as one even when it is 0, which SacreBLEU takes for none."""

    def __bool__(self) -> bool:
        return True


class ScoredMetricColumn(NamedTuple):
    """One of our metrics with the scores of every system."""

    scorer: Scorer
    scores: tuple[ScoreSet, ...]


class _PairedComparison(NamedTuple):
    """What the tests run on: systems and, for every metric, its cells."""

    names: Sequence[str]
    predictions: Sequence[Sequence[str]]
    metrics: list[Metric]
    cells: list[tuple[SystemScore, ...]]


def compare_systems(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[ScoredMetricColumn | str],
    *,
    request: ComparisonRequest | None = None,
    progress: Progress | None = None,
) -> SystemComparison:
    """Compare systems that were scored against the same references.

    Args:
        systems: Names and predictions, the baseline first.
        references: Per segment its references.
        metrics: In the order of the columns: ours with their scores of these systems, and names of SacreBLEU's, of
            `LEXICAL_NAMES`.
        request: Tests and intervals.
        progress: Called with 1 when a metric has scored, and with 1 when it has been tested.

    Returns:
        The scores, ours on their own scale (to 1), SacreBLEU's on its (to 100).

    Raises:
        SpecError: As for `check_request`.
        InputError: SacreBLEU cannot score the texts, or a test or interval of a single segment.

    Warns:
        TwmdWarning: A test or interval of fewer segments than `twmd_registry.engine.input_warnings.RELIABLE_SAMPLE`.
    """
    request = request or ComparisonRequest()
    check_request(request, len(systems), len(references))
    names, predictions = zip(*systems, strict=True)
    streams = _streams(references)
    contest = _PairedComparison(names, predictions, [], [])
    report = progress or (lambda _done: None)
    expect(progress, 2 * len(metrics))
    for one in metrics:
        _enter(contest, one, streams, references if request.segments else None)
        report(1)
    columns = []
    with _seeded(request.seed):
        for k, name in enumerate(_labels(metrics)):
            columns.append(_column(contest, k, name, request))
            report(1)
    resamples = 0 if request.test and request.test.kind == "bs" else request.resamples
    return SystemComparison(names, tuple(columns), request.test, resamples, request.seed)


def check_request(request: ComparisonRequest, systems: int, segments: int) -> None:
    """Refuse a test of a single system, a test or interval of a single segment, and two numbers of resamples for one
    bootstrap; warn where there are few segments.

    Args:
        request: Tests and intervals.
        systems: How many systems there are.
        segments: How many segments each of them has.

    Raises:
        SpecError: A single system, or two numbers of resamples.
        InputError: A single segment.
    """
    if request.test and systems < 2:
        raise SpecError("a paired test compares systems: give two or more after -i.")
    if request.test and request.test.kind == "bs" and request.resamples not in {0, request.test.samples}:
        raise SpecError(
            "the paired bootstrap has its intervals from its own resamples: expected one number for both, got "
            f"{request.test.samples} for the test (--paired-bs-n) and {request.resamples} for the intervals "
            "(--confidence-n)."
        )
    if request.test or request.resamples:
        check_sample(segments)


def _labels(metrics: Sequence[ScoredMetricColumn | str]) -> list[str]:
    """Names of the columns, no two alike."""
    own = iter(labels_of([one.scorer.spec for one in metrics if not isinstance(one, str)]))
    return [LEXICAL_NAMES[one] if isinstance(one, str) else next(own) for one in metrics]


def _enter(
    contest: _PairedComparison,
    one: ScoredMetricColumn | str,
    streams: Streams,
    references: Sequence[Sequence[str]] | None,
) -> None:
    """Add a metric with the scores of every system; segments are scored by SacreBLEU's where references are given by
    segment.
    """
    if isinstance(one, str):
        contest.metrics.append(_lexical(one, streams))
        contest.cells.append(tuple(_lexical_cell(one, streams, system, references) for system in contest.predictions))
        return
    own = METRICS[one.scorer.requested.metric](references=streams, scorer_used=one.scorer)
    own.checked_sample = len(streams[0])
    for found in one.scores:
        own.remember(found)
    contest.metrics.append(own)
    contest.cells.append(tuple(map(cell_of, one.scores)))


def _streams(references: Sequence[Sequence[str]]) -> Streams:
    """SacreBLEU's orientation: a stream per reference number, None where a segment has fewer."""
    most = max(len(own) for own in references)
    return [[own[k] if k < len(own) else None for own in references] for k in range(most)]


def _lexical(name: str, streams: Streams, **settings: bool) -> Metric:
    try:
        metric: Metric = LEXICAL[name.upper()](references=streams, **settings)
    except (ValueError, RuntimeError, TypeError, IndexError) as error:
        raise InputError(f"SacreBLEU's {name} cannot read the references: {error}") from error
    return metric


def _lexical_cell(
    name: str, streams: Streams, system: Sequence[str], references: Sequence[Sequence[str]] | None
) -> SystemScore:
    """A system by one of SacreBLEU's metrics; its segments only where references are given by segment."""
    cell = SystemScore(float(_lexical(name, streams).corpus_score(system, None).score), {}, ())
    if references is None:
        return cell
    # Sentences have a metric of their own, as on SacreBLEU's command line: BLEU has settings for them.
    metric = _lexical(name, streams, **({"effective_order": True} if name == "bleu" else {}))
    return cell._replace(
        segments=tuple(
            float(metric.sentence_score(text, list(own)).score) for text, own in zip(system, references, strict=True)
        )
    )


def _column(contest: _PairedComparison, k: int, name: str, request: ComparisonRequest) -> MetricColumn:
    """One metric with what tests and resampling say."""
    metric = contest.metrics[k]
    if request.test:
        signature, cells = _tested(contest, k, request.test, request)
    elif request.resamples:
        cells = tuple(
            _with_interval(metric, *pair, request.resamples)
            for pair in zip(contest.predictions, contest.cells[k], strict=True)
        )
        signature = metric.get_signature()
    else:
        signature, cells = metric.get_signature(), contest.cells[k]
    if isinstance(signature, EmbeddingSignature):
        shown, long = (signature.whole(short=short) for short in (request.short, False))
        return MetricColumn(name, shown, hundred=False, cells=cells, long_signature=long)
    shown, long = (f"{name}|{signature.format(short=short)}" for short in (request.short, False))
    return MetricColumn(
        name, shown, hundred=True, cells=cells, errors=isinstance(metric, LEXICAL["TER"]), long_signature=long
    )


def _scale(metric: Metric) -> float:
    return SCALE if isinstance(metric, EmbeddingMetric) else 1.0


def _with_interval(metric: Metric, system: Sequence[str], cell: SystemScore, resamples: int) -> SystemScore:
    score = metric.corpus_score(system, None, n_bootstrap=resamples)
    mean, ci = (float(value) / _scale(metric) for value in (score._mean, score._ci))  # noqa: SLF001 (SacreBLEU has no other way)
    return cell._replace(mean=mean, ci=ci)


def _tested(
    contest: _PairedComparison, k: int, test: SignificanceTest, request: ComparisonRequest
) -> tuple[Any, tuple[SystemScore, ...]]:
    """Run SacreBLEU's `PairedTest`, one metric at a time: it keeps results by the score's name, which two variants may
    share.
    """
    metric = contest.metrics[k]
    paired = PairedTest(
        list(zip(contest.names, contest.predictions, strict=True)),
        {"metric": metric},
        None,
        test_type=test.kind,
        n_samples=test.samples,
        # A paired bootstrap has its intervals from its own resamples; SacreBLEU would sign it with this number instead.
        n_ar_confidence=request.resamples if test.kind == "ar" and request.resamples else -1,
    )
    paired._seed = _Seed(request.seed)  # noqa: SLF001
    signatures, results = paired()
    (name,) = signatures
    cells = contest.cells[k]
    tested = [
        _tested_cell(cell, result, cells[0], _scale(metric)) for cell, result in zip(cells, results[name], strict=True)
    ]
    if request.keep_resamples and test.kind == "bs":
        pairs = zip(contest.predictions, tested, strict=True)
        tested = [cell._replace(resampled=_resampled(metric, system, test.samples)) for system, cell in pairs]
    return signatures[name], tuple(tested)


def _resampled(metric: Metric, system: Sequence[str], samples: int) -> tuple[float, ...]:
    """Score the resamples of the paired bootstrap: SacreBLEU draws them again from the seed."""
    stats = metric._extract_corpus_statistics(system, None)  # noqa: SLF001 (`PairedTest` keeps no resample)
    return tuple(float(one.score) / _scale(metric) for one in _bootstrap_resample(stats, metric, samples)[1])


def _tested_cell(cell: SystemScore, result: Any, baseline: SystemScore, scale: float) -> SystemScore:
    p_value = result.p_value
    if (
        p_value is not None and cell.score == baseline.score
    ):  # SacreBLEU gives a system against itself the smallest p of all
        p_value = 1.0
    mean, ci = (None if value is None else float(value) / scale for value in (result.mean, result.ci))
    return cell._replace(mean=mean, ci=ci, p_value=p_value)


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """SacreBLEU reads its seed from the environment."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before
