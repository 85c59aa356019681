"""`mbr`: choose among candidate texts without a reference, by minimum Bayes risk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from numbers import Integral, Real
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from twmd_registry.align import ONE_SIDED
from twmd_registry.engine.backends import Backend, Scored, TokenAlignmentBackend
from twmd_registry.engine.pairs import Pairs, Segments, check_candidates, check_sources
from twmd_registry.engine.pipeline import STEPS_PER_TEXT
from twmd_registry.engine.scorer import Scorer, score_segments, scorer
from twmd_registry.engine.shared_passes import depends_on_neighbours
from twmd_registry.errors import SpecError, collect_warnings, warn
from twmd_registry.progress import Progress, Stage
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.signature import Signature
from twmd_registry.registry.spec import MetricSpec

TIED = 1e-6
"""Mean utilities that differ by no more (beyond 1, by no more than this share) are tied: the batch in which a score is
computed changes it as much.
"""
CANDIDATES_AT_ONCE = 2048
"""Candidates that are scored in one call, at least; those of a segment stay together."""
KEPT_BYTES = 1 << 28
"""Most memory for their vectors between the steps of pruning."""
KEPT_CANDIDATES = 16
"""Candidates that coarse-to-fine pruning keeps by default."""
FIRST_REFERENCES, RESAMPLES, SEED = 16, 500, 12345
"""Confidence-based pruning: references of the first step, bootstrap samples of every step, seed of both."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The candidate that was chosen for a segment.

    Attributes:
        index: Its number, from 0: the first of those with the highest mean utility.
        candidate: Its text.
        expected_utility: Its mean utility, with all candidates of the segment as references, itself included.
        utilities: If asked for, the utility of every candidate (row) with every candidate as its reference (column);
            shape (n, n), NaN where pruning left it out.
    """

    index: int
    candidate: str
    expected_utility: float
    utilities: np.ndarray | None


class MbrResult(NamedTuple):
    """The choices of `mbr`.

    Attributes:
        signature: The applied metric, with a single reference.
        method: How its utilities were used: the arguments of `mbr` that decide the choice, written as a signature.
        choices: One per segment.
    """

    signature: Signature
    method: str
    choices: tuple[Choice, ...]


class _Method(NamedTuple):
    """The arguments of `mbr` that decide the choice, checked, with the scorer of the coarse metric."""

    mean_vectors: bool
    confidence: float | None
    coarse: Scorer | None
    keep: int
    sources: list[str] | None

    @property
    def prunes(self) -> bool:
        return self.confidence is not None or self.coarse is not None

    def check(self, utility: Scorer, *, utilities: bool) -> None:
        """Raise SpecError where its values are not possible, alone or with a scorer."""
        if self.confidence is not None and not (isinstance(self.confidence, Real) and 0 < self.confidence < 1):
            raise SpecError(f"prune_confidence={self.confidence}: expected a number between 0 and 1, such as 0.99.")
        if not isinstance(self.keep, Integral) or self.keep < 1:
            raise SpecError(f"prune_keep={self.keep}: expected a whole number, 1 or more.")
        if self.mean_vectors and (self.prunes or utilities):
            raise SpecError("mean vectors score no pairs: leave out pruning and utilities, or mean_vectors.")
        used = [utility, *([self.coarse] if self.coarse else [])]
        if (self.mean_vectors or self.prunes) and any(map(depends_on_neighbours, used)):
            raise SpecError(
                "pruning and mean vectors leave out pairs, on all of which a score depends by this centering or idf: "
                "score all pairs, or set centering and idf to none or a background."
            )

    def __str__(self) -> str:
        """Return the values as a signature writes them."""
        fields = ["mbr", f"mean_vectors:{'yes' if self.mean_vectors else 'no'}"]
        if self.confidence is not None:
            fields.append(f"prune_confidence:{self.confidence}")
        if self.coarse:
            fields += [f"prune_coarse:{quote(self.coarse.signature, safe='')}", f"prune_keep:{self.keep}"]
        return "|".join(fields)


def mbr(
    candidates: Iterable[Iterable[str]],
    metric: str | Signature | MetricSpec | Scorer = MetricName.TWMD,
    preset: str | None = None,
    *,
    sources: Iterable[str] | None = None,
    mean_vectors: bool = False,
    prune_confidence: float | None = None,
    prune_coarse: str | Signature | MetricSpec | Scorer | None = None,
    prune_keep: int | None = None,
    utilities: bool = False,
    progress: Progress | None = None,
    **keys: Any,
) -> MbrResult:
    """Choose, for every segment, the candidate y with the highest mean utility (minimum Bayes risk).

    The utility u(y, r) is the score of y with the candidate r as its reference; the mean is over all candidates r: what
    `score` gives y with all of them as its references and ``multiref=mean``. Where a score depends on other segments,
    that is one call of `score` for all candidates of all segments.

    >>> mbr([["dogs bark", "a cat sat there", "the cat sat there"]]).choices[0].index
    2

    Args:
        candidates: One list of texts per segment, at least one text each; lists may differ in length.
        metric: As for `scorer`; or a scorer, whose model stays loaded.
        preset: As for `scorer`.
        sources: One text per segment, for metrics with ``against=source`` or ``both``, as for `score_all`.
        mean_vectors: Approximate by reference aggregation (DeNero et al. 2009; Vamvas & Sennrich 2024), in linear time:
            u is the inner product (with ``normalize=yes`` the cosine) of mean token vectors, as that of `sbert`.
        prune_confidence: Confidence-based pruning (Cheng & Vlachos 2023), such as 0.99: after 16, 32, 64, ... random
            references (the same in every run), drop a candidate that is no worse than the best in no more than
            ``1 - prune_confidence`` of 500 bootstrap samples of them.
        prune_coarse: Coarse-to-fine pruning (Eikema & Aziz 2022): keep the best `prune_keep` candidates by this metric.
        prune_keep: At least 1; 16 by default.
        utilities: Return the utilities of all pairs.
        progress: Called with the number of candidates done since its last call.
        keys: As for `scorer`.

    Raises:
        InputError: A row is no list of texts, or is empty; the message names it.
        SpecError: An argument is not possible, alone or with others.
        TwmdError: As for `scorer` and `Scorer.score`.
    """
    lists = check_candidates(candidates)
    if isinstance(metric, Scorer) and (preset is not None or keys):
        raise SpecError("a scorer fixes preset, keys and run options: leave them out, or name the metric.")
    utility = metric if isinstance(metric, Scorer) else scorer(metric, preset, **keys)
    coarse = prune_coarse if prune_coarse is None or isinstance(prune_coarse, Scorer) else scorer(prune_coarse)
    checked = None if sources is None else check_sources(sources, len(lists))
    if prune_keep is not None and coarse is None:
        raise SpecError("prune_keep is how many candidates prune_coarse keeps: name a coarse metric, or leave it out.")
    keep = KEPT_CANDIDATES if prune_keep is None else prune_keep
    how = _Method(mean_vectors, prune_confidence, coarse, keep, checked)
    how.check(utility, utilities=utilities)
    choices = _choose(utility, lists, how, progress, utilities=utilities)
    nrefs = "0" if all(member.requested.against == "source" for member in utility.members) else "1"
    return MbrResult(Signature(utility.spec, nrefs), str(how), tuple(choices))


def _choose(
    utility: Scorer, lists: list[list[str]], how: _Method, progress: Progress | None, *, utilities: bool
) -> list[Choice]:
    def remake(given: Scorer) -> Scorer:
        """Return a scorer whose calls share encoded texts, of any number of references."""
        kept = max(given.options.keep_references, KEPT_BYTES if how.prunes else 0)
        return Scorer(given.requested, replace(given.options, keep_references=kept), given.parts)

    utility, how = remake(utility), how._replace(coarse=how.coarse and remake(how.coarse))
    first, whole = np.cumsum([0, *map(len, lists)]), depends_on_neighbours(utility)
    choices = []
    with collect_warnings() as messages:  # several calls may repeat them
        for _, rows in groupby(range(len(lists)), lambda row: not whole and first[row] // CANDIDATES_AT_ONCE):
            part = {row: lists[row] for row in rows}
            tables = (_score_with_means if how.mean_vectors else _score_pairs)(utility, part, how, progress)
            for texts, table in zip(part.values(), tables, strict=True):
                means = table.mean(1)
                most = np.nanmax(means)
                best = int(np.flatnonzero(means >= most - TIED * max(1.0, abs(most)))[0])
                choices.append(Choice(best, texts[best], float(means[best]), table if utilities else None))
    for message in dict.fromkeys(messages):
        warn(message)
    return choices


def _score_pairs(
    utility: Scorer, part: dict[int, list[str]], how: _Method, progress: Progress | None
) -> list[np.ndarray]:
    """Return the utilities of every segment, by its number, shape (n, n), NaN where pruning left them out."""

    def score(by: Scorer, rows: list[np.ndarray], columns: list[np.ndarray], progress: Progress | None = None) -> None:
        """Fill rows (candidates) and columns (references) of all tables."""
        segments, numbers = Segments([], []), list[int]()
        for (number, texts), candidates, others in zip(part.items(), rows, columns, strict=True):
            segments.predictions.extend(texts[i] for i in candidates)
            shared = [texts[j] for j in others]
            # References stay in memory for the next step, so that every text is one: its own at least.
            segments.references.extend([*shared, texts[i]] if how.prunes else shared for i in candidates)
            numbers += [number] * len(candidates)
        originals = how.sources and [how.sources[number] for number in numbers]
        sets = score_segments(by.members, segments._replace(sources=originals), rows=numbers, progress=progress)
        counts = [len(references) for references in segments.references]
        each = []
        for result in sets:  # a candidate has a single score with its source, whatever the reference
            with_source = result.signature.spec.against == "source"
            each.append(np.repeat(result.scores, counts) if with_source else np.asarray(result.by_reference))
        left = np.average(each, axis=0, weights=by.weights)
        for table, candidates, others in zip(tables, rows, columns, strict=True):
            here, left = np.split(left, [len(candidates) * (len(others) + how.prunes)])
            table[np.ix_(candidates, others)] = here.reshape(len(candidates), -1)[:, : len(others)]

    sizes = [len(texts) for texts in part.values()]
    tables = [np.full((size, size), np.nan) for size in sizes]
    alive = [np.arange(size) for size in sizes]
    if not how.prunes:
        score(utility, alive, alive, progress)
        return tables
    if how.coarse:
        score(how.coarse, alive, alive)
        alive = [np.sort(np.argsort(-table.mean(1), kind="stable")[: how.keep]) for table in tables]
        tables = [np.full((size, size), np.nan) for size in sizes]
    draws = [np.random.default_rng(SEED) for _ in part]
    orders = [draw.permutation(size) for draw, size in zip(draws, sizes, strict=True)]
    start, stop = 0, max(sizes) if how.confidence is None else FIRST_REFERENCES
    while start < max(sizes):
        score(utility, alive, [order[start:stop] for order in orders])
        for k, table in enumerate(tables):
            if how.confidence is not None:
                alive[k] = alive[k][_may_win(table[np.ix_(alive[k], orders[k][:stop])], draws[k], how.confidence)]
        start, stop = stop, 2 * stop
    if progress:
        progress(sum(sizes))
    return tables


def _may_win(known: np.ndarray, draw: np.random.Generator, confidence: float) -> np.ndarray:
    """Return which candidates stay, by their utilities with the references so far (A, R); shape (A,), bool."""
    number, best = known.shape[1], known.mean(1).argmax()
    counts = draw.multinomial(number, np.full(number, 1 / number), size=RESAMPLES)  # (samples, R)
    means = known @ counts.T  # (A, samples)
    wins: np.ndarray = (means >= means[best]).mean(1)  # 1 for the best itself
    return wins > 1 - confidence


def _score_with_means(
    utility: Scorer, part: dict[int, list[str]], how: _Method, progress: Progress | None
) -> list[np.ndarray]:
    """Return the utility of every segment's candidates with the mean vector of them all; shape (n, 1)."""
    ends = np.cumsum([len(texts) for texts in part.values()])[:-1]

    def score_group(group: Sequence[Backend], pairs: Pairs, stage: Stage) -> Scored:
        if pairs.second == "sources":
            return group[0].score_group(group, pairs, stage)
        backends = [member for member in group if isinstance(member, TokenAlignmentBackend) and not member.spec.align]
        if len(backends) < len(group):
            raise SpecError("stsscore and align=sentences have no token vectors of a text: leave out mean_vectors.")
        with stage(len(pairs.texts) * STEPS_PER_TEXT) as moved, backends[0].run(backends, pairs, moved) as run:
            vectors, flags = run.average_hypotheses(), run.flags
        scored = []
        for backend in backends:
            scores = np.concatenate([x @ x.mean(0) for x in np.split(vectors[backend.spec], ends)])
            scored.append(np.tile(scores, (1 if backend.spec.metric in ONE_SIDED else 3, 1)))
        return scored, flags

    texts = [(number, text) for number, texts in part.items() for text in texts]
    segments = Segments([text for _, text in texts], [[text] for _, text in texts])
    rows = [number for number, _ in texts]
    originals = how.sources and [how.sources[number] for number in rows]
    (scores,) = score_segments(
        [utility], segments._replace(sources=originals), progress=progress, score_group=score_group, rows=rows
    )
    return np.split(np.array(scores.scores)[:, None], ends)
