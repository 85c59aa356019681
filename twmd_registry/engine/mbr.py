"""`mbr`: choose among candidate texts without a reference, by minimum Bayes risk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Unpack

import numpy as np

from twmd_registry.engine.input_warnings import SHOWN_TEXTS
from twmd_registry.engine.pairs import Segments, check_candidates, check_sources
from twmd_registry.engine.scorer import Scorer, load, score_segments
from twmd_registry.engine.shared_passes import depends_on_neighbours
from twmd_registry.errors import SpecError, check_types
from twmd_registry.messages import collect_warnings, warn
from twmd_registry.progress import Progress
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import MetricKeys
from twmd_registry.registry.references import is_blank
from twmd_registry.registry.signature import Signature

TIED = 1e-6
"""Mean utilities that differ by at most this (relative above 1) are tied, because the batch moves a score by as much.
"""
CANDIDATES_AT_ONCE = 2048
"""Minimum number of candidates per call; a segment's candidates stay together."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The candidate chosen for a segment.

    Attributes:
        index: Its index: the first with the highest mean utility.
        candidate: Its text.
        expected_utility: Its mean utility with all the segment's candidates as references, itself included.
        utilities: If requested, the utility of every candidate (rows) with every candidate as reference (columns);
            shape (n, n).
    """

    index: int
    candidate: str
    expected_utility: float
    utilities: np.ndarray | None


class MbrResult(NamedTuple):
    """The choices of `mbr`.

    Attributes:
        signature: The applied metric, with a single reference.
        choices: One per segment.
    """

    signature: Signature
    choices: tuple[Choice, ...]


@check_types(utilities=bool)
def mbr(
    candidates: Iterable[Iterable[str]],
    metric: str | Signature | MetricSpec | Scorer = MetricName.TWMD,
    preset: str | None = None,
    *,
    sources: Iterable[str] | None = None,
    utilities: bool = False,
    progress: Progress | None = None,
    **keys: Unpack[MetricKeys],
) -> MbrResult:
    """Choose, for every segment, the candidate y with the highest mean utility (minimum Bayes risk).

    The utility u(y, r) is the score of y with the candidate r as its reference. The mean is over all candidates r,
    including blank ones, like `score` with all of them as references and ``multiref=mean``. If a score depends on other
    segments, all candidates of all segments are scored in one call.

    Examples:
        >>> mbr([["dogs bark", "a cat sat there", "the cat sat there"]]).choices[0].index
        1

    Args:
        candidates: One list of texts per segment, at least one text each; lists may differ in length.
        metric: As for `load`, or a scorer, whose model stays loaded.
        preset: As for `load`.
        sources: One text per segment, for metrics with ``against=source`` or ``both``, as for `score_all`.
        utilities: Whether to return the utilities of all pairs.
        progress: As for `Scorer.score`; each candidate is a segment.
        keys: As for `load`.

    Raises:
        InputError: A row is not a list of texts, or is empty; the message names it.
        SpecError: A preset or keys are passed with a scorer.
        TwmdError: As for `load` and `Scorer.score`.

    Warns:
        TwmdWarning: As for `Scorer.score`, with each segment counted once, or if an empty candidate was chosen.
    """
    lists = check_candidates(candidates)
    if isinstance(metric, Scorer) and (preset is not None or keys):
        raise SpecError("a scorer fixes preset, keys and run options: leave them out, or name the metric.")
    utility = metric if isinstance(metric, Scorer) else load(metric, preset, **keys)
    checked = None if sources is None else check_sources(sources, len(lists))
    utility = Scorer(utility.requested, utility.options, utility.local_files)  # takes any number of references
    choices = _choose(utility, lists, checked, progress, utilities=utilities)
    nrefs = 0 if all(member.requested.against == "source" for member in utility.members) else 1
    return MbrResult(Signature(utility.spec, nrefs), tuple(choices))


def _choose(
    utility: Scorer, lists: list[list[str]], sources: list[str] | None, progress: Progress | None, *, utilities: bool
) -> list[Choice]:
    first, whole = np.cumsum([0, *map(len, lists)]), depends_on_neighbours(utility)
    choices = []
    with collect_warnings() as messages:  # calls may repeat them
        for _, rows in groupby(range(len(lists)), lambda row: not whole and first[row] // CANDIDATES_AT_ONCE):
            part = {row: lists[row] for row in rows}
            for texts, table in zip(part.values(), _utilities_of(utility, part, sources, progress), strict=True):
                means = table.mean(1)
                best = int(np.flatnonzero(means >= means.max() - TIED * max(1.0, abs(means.max())))[0])
                choices.append(Choice(best, texts[best], float(means[best]), table if utilities else None))
    for message in dict.fromkeys(messages):
        warn(message)
    if empty := [row for row, choice in enumerate(choices) if is_blank(choice.candidate)]:
        named = ", ".join(f"candidates[{row}]" for row in empty[:SHOWN_TEXTS]) + ", ..." * (len(empty) > SHOWN_TEXTS)
        warn(f"segments for which an empty candidate was chosen: {len(empty)} ({named}); leave empty candidates out.")
    return choices


def _utilities_of(
    utility: Scorer, part: dict[int, list[str]], sources: list[str] | None, progress: Progress | None
) -> list[np.ndarray]:
    """Return the utilities by segment; shape (n, n) each."""
    segments = Segments(
        [text for texts in part.values() for text in texts],
        [texts for texts in part.values() for _ in texts],
        sources and [sources[number] for number, texts in part.items() for _ in texts],
    )
    numbers = [number for number, texts in part.items() for _ in texts]
    counts, tables = list(map(len, segments.references)), []
    for result in score_segments(utility.members, segments, rows=numbers, progress=progress):
        # A candidate's score with its source does not depend on the reference.
        with_source = result.signature.spec.against == "source"
        tables.append(np.repeat(result.scores, counts) if with_source else np.asarray(result.by_reference))
    sizes = [len(texts) for texts in part.values()]
    parts = np.split(np.average(tables, axis=0, weights=utility.weights), np.cumsum(np.square(sizes))[:-1])
    return [scores.reshape(size, size) for scores, size in zip(parts, sizes, strict=True)]
