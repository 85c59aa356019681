"""Agreement about systems: whether a metric ranks them as people do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from twmd_registry.errors import InputError, SpecError, warn
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.agreement import RESAMPLES, SEED, Agreement, Averaging, agreement, draw, interval, parts_of
from twmd_registry.metaeval.correlation import PAIRWISE, Statistic, check_numbers, statistic_named


class SystemAccuracy(NamedTuple):
    """The pairwise accuracy over systems.

    Attributes:
        value: Share of the pairs of systems that metric and people order alike; from 0 to 1.
        low: Lower end of the 95% interval; None without resamples.
        high: Upper end.
        pairs: How many pairs there are, of all groups.
    """

    value: float
    low: float | None
    high: float | None
    pairs: int


class RatedSystem(NamedTuple):
    """One system of a group.

    Attributes:
        group: The group.
        name: The system.
        score: The mean score of its segments.
        rating: The mean rating of its segments, or the one that was given.
        n: Its segments.
    """

    group: str
    name: str
    score: float
    rating: float
    n: int


class SystemLevel(NamedTuple):
    """How well a metric ranks systems.

    Attributes:
        agreement: The statistic over systems within every group, averaged; its n counts systems.
        accuracy: Of the pairs of systems.
        systems: What both are computed from.
    """

    agreement: Agreement
    accuracy: SystemAccuracy
    systems: tuple[RatedSystem, ...]


def system_level(
    statistic: str,
    scores: Sequence[float] | np.ndarray,
    rated: RatedSegments,
    system_ratings: Mapping[str, float] | None = None,
    *,
    averaging: str = Averaging.GROUP,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> SystemLevel:
    """Measure whether a metric ranks systems as people do.

    A system's score is the mean over its segments within a group. The accuracy is the share of the pairs of systems of
    one group that
    metric and people order alike, over the pairs of all groups (Kocmi et al. 2021); a tie of either is not alike. For
    intervals the systems
    of every group are drawn with replacement; a system and its own copy are no pair.

    Args:
        statistic: ``pearson``, ``spearman`` or ``kendall``.
        scores: Higher is better; shape (segments,).
        rated: The ratings; every segment's system is named.
        system_ratings: Ratings of whole systems by name, instead of the means over segments.
        averaging: ``group``, or ``none`` for one ranking of all systems, whatever their group.
        resamples: Of the bootstrap; 0 for no intervals.
        seed: Of the bootstrap.

    Returns:
        Both measures. Systems with fewer segments than others of their group, and those that only one side rates, are
        warned of.

    Raises:
        SpecError: The statistic or averaging does not exist, or does not apply to systems.
        InputError: The data do not name systems; given ratings and a system that is in several groups; no group has
            three systems, or scores
            and ratings that vary; as for `twmd_registry.metaeval.agreement.agreement`.
    """
    wanted = check_systems(rated, statistic, averaging)
    found = _systems(check_numbers("scores", scores, len(rated.ratings)), rated, averaging)
    if system_ratings is not None:
        found = _rate(found, system_ratings)
    means = RatedSegments([one.group for one in found], [], [], np.array([one.rating for one in found]), 0)
    own = np.array([one.score for one in found])
    ranked = agreement(wanted, own, means, averaging=averaging, resamples=resamples, seed=seed)
    return SystemLevel(ranked, _accuracy(own, means, averaging, resamples, seed), tuple(found))


def check_systems(rated: RatedSegments, statistic: str, averaging: str) -> Statistic:
    """Refuse what cannot be measured of systems.

    Returns:
        The statistic.

    Raises:
        SpecError: The statistic or averaging does not exist, or does not apply to systems.
        InputError: The data do not name systems.
    """
    wanted = statistic_named(statistic)
    if wanted in PAIRWISE or averaging not in {Averaging.GROUP, Averaging.NONE}:
        raise SpecError(
            f"systems are ranked by pearson, spearman or kendall, averaged over group or none; not by {wanted} "
            f"over {averaging}."
        )
    if rated.system is None:
        raise InputError(
            "ranking systems needs the system of every segment, which these data do not name: give the column "
            "that does (system=)."
        )
    return wanted


def _systems(scores: np.ndarray, rated: RatedSegments, averaging: str) -> list[RatedSystem]:
    names, found = np.asarray(rated.system), []
    for part in parts_of(rated, Statistic.PEARSON, averaging):
        own = names[part.rows]
        group = [
            RatedSystem(part.name, str(name), float(scores[rows].mean()), float(rated.ratings[rows].mean()), len(rows))
            for name in np.unique(own)
            for rows in (part.rows[own == name],)
        ]
        _warn_about_missing_segments(group)
        found += group
    return found


def _warn_about_missing_segments(group: Sequence[RatedSystem]) -> None:
    most = max(one.n for one in group)
    fewer = [f"{one.name} ({one.n})" for one in group if one.n < most]
    if fewer:
        which = f"{len(fewer)} of {len(group)} systems have fewer than {most} segments"
        warn(f"{group[0].group}: {which}, so means of different segments are compared: {', '.join(fewer)}.")


def _rate(found: Sequence[RatedSystem], ratings: Mapping[str, float]) -> list[RatedSystem]:
    """Put given ratings in place of means."""
    names = [one.name for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"system ratings go by name, and these systems are in several groups: {', '.join(twice)}; select one group."
        )
    for what, missing in (("no rating", set(names) - set(ratings)), ("no segment", set(ratings) - set(names))):
        if missing:
            warn(f"{len(missing)} systems have {what} and are left out: {', '.join(sorted(missing))}.")
    kept = [one._replace(rating=float(ratings[one.name])) for one in found if one.name in ratings]
    if not kept:
        raise InputError(
            f"no system of the data is rated; expected some of {', '.join(names)}; got {', '.join(ratings) or 'none'}."
        )
    return kept


def _accuracy(scores: np.ndarray, means: RatedSegments, averaging: str, resamples: int, seed: int) -> SystemAccuracy:
    alike, pairs = 0, 0
    counts = np.zeros((2, resamples))  # alike, pairs
    for k, part in enumerate(parts_of(means, Statistic.PEARSON, averaging)):
        own, people = (
            np.sign(np.subtract.outer(values, values)) for values in (scores[part.rows], part.sample.ratings)
        )
        agree = ((own == people) & (own != 0)).astype(np.float64)  # (systems, systems); every pair is there twice
        other = 1.0 - np.eye(len(own))
        alike, pairs = alike + int(agree.sum()) // 2, pairs + int(other.sum()) // 2
        weights = draw(len(own), resamples, np.random.default_rng([seed, k])).astype(np.float64)
        counts += [(weights * (which @ weights)).sum(axis=0) for which in (agree, other)]
    defined = counts[1] > 0
    return SystemAccuracy(alike / pairs, *interval(counts[0, defined] / counts[1, defined]), pairs)
