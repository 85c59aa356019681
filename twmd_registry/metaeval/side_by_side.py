"""Several metrics, ours and SacreBLEU's, on the same segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from twmd_registry.errors import SpecError, menu
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.lexical import LEXICAL, score_lexically
from twmd_registry.metaeval.overlap import warn_about_overlap
from twmd_registry.progress import Progress
from twmd_registry.registry.diff import labels_of
from twmd_registry.registry.members import write_members
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import MetricSpec

if TYPE_CHECKING:
    from twmd_registry.engine.result import ScoreSet
    from twmd_registry.engine.scorer import Scorer

Compared = MetricSpec | str
"""A metric of ours, or the name of one of SacreBLEU's, of `twmd_registry.metaeval.lexical.LEXICAL`."""


class MetricScores(NamedTuple):
    """One metric's scores.

    Attributes:
        label: A name unlike the other metrics'.
        signature: What was computed.
        scores: A score per segment.
    """

    label: str
    signature: str
    scores: tuple[float, ...]


class SideBySide(NamedTuple):
    """Several metrics' scores of the same segments.

    Attributes:
        applied: The metrics, specifications as they were applied.
        scored: The scores of each.
        overlaps: Which of them were trained or tuned on these data, in a sentence each.
    """

    applied: tuple[Compared, ...]
    scored: tuple[MetricScores, ...]
    overlaps: tuple[str, ...]


def check_compared(metrics: Iterable[Compared]) -> tuple[Compared, ...]:
    """Refuse to compare nothing, and what there is not; a metric that comes again is left out.

    Raises:
        SpecError: As said.
    """
    found = (metrics,) if isinstance(metrics, str | MetricSpec) else tuple(dict.fromkeys(metrics))
    for one in found:
        if not isinstance(one, MetricSpec) and one not in LEXICAL:
            raise SpecError(
                f"expected a specification or a metric of SacreBLEU, and there is none called {one!r} here; "
                f"{menu(str(one), LEXICAL)}."
            )
    if not found:
        raise SpecError("there is no metric to compare.")
    return found


def names_of(metrics: Iterable[Compared]) -> str:
    """The canonical text of metrics, in their order."""
    return ",".join(one if isinstance(one, str) else write_members([(1.0, one)]) for one in metrics)


def score_side_by_side(
    metrics: Sequence[Compared], rated: RatedSegments, data: str, options: RunOptions, progress: Progress | None = None
) -> SideBySide:
    """Score every segment by every metric, each text encoded once per model.

    Args:
        metrics: The metrics.
        rated: The segments; nothing but their texts is looked at.
        data: What they are called.
        options: Where and how fast.
        progress: Called with the number of segments scored.

    Raises:
        ModelError: As `Scorer.score`.
        InputError: As `Scorer.score`.

    Warns:
        TwmdWarning: A metric was trained or tuned on some of the references.
    """
    scorers, sets = _score([one for one in metrics if isinstance(one, MetricSpec)], rated, options, progress)
    labels = labels_of([one.signature.spec for one in sets])
    overlaps = warn_about_overlap(labels, scorers, rated.references, data)
    own = zip(sets, labels, strict=True)
    applied, scored = list[Compared](), list[MetricScores]()
    for one in metrics:
        if isinstance(one, str):
            theirs = score_lexically(one, rated)
            applied.append(one)
            scored.append(MetricScores(one, theirs.signature, tuple(theirs.scores.tolist())))
        else:
            ours, label = next(own)
            applied.append(ours.signature.spec)
            scored.append(MetricScores(label, str(ours.signature), ours.scores))
    return SideBySide(tuple(applied), tuple(scored), overlaps)


def _score(
    specs: Sequence[MetricSpec], rated: RatedSegments, options: RunOptions, progress: Progress | None
) -> tuple[list[Scorer], list[ScoreSet]]:
    if not specs:
        return [], []
    from twmd_registry.engine.scorer import make_scorer, score_all  # torch: not for SacreBLEU's metrics alone

    scorers = [make_scorer(one, options) for one in specs]
    return scorers, score_all(scorers, rated.predictions, rated.references, progress=progress)
