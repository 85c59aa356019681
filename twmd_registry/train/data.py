"""What a metric is trained on: rated segments, checked, their ratings on one scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from twmd_registry.engine.pairs import Segments, check_segments
from twmd_registry.errors import InputError, warn
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import content_of
from twmd_registry.metaeval.overlap import Hashes, hash_references, normalise
from twmd_registry.train.recipe import LEAST_CORRELATED

LEAST_SEGMENTS = 2
"""With one rating there is nothing to learn: ratings are compared with their own mean."""


class TrainingData(NamedTuple):
    """Rated data and what they are called in a card."""

    name: str
    rated: RatedSegments

    @property
    def label(self) -> str:
        """Name, content and size."""
        return f"{self.name}@{content_of(self.rated)} ({len(self.rated.ratings)} segments)"


class TrainingExample(NamedTuple):
    """One segment.

    Attributes:
        prediction: A text.
        references: One or more texts.
        target: Its rating, in standard deviations from the mean of its data set.
        group: Its data set and the group within it.
    """

    prediction: str
    references: list[str]
    target: float
    group: tuple[str, str]


class RatingScale(NamedTuple):
    """The ratings of a data set: what ``z = (rating - mean) / sd`` is made of.

    Attributes:
        label: The data set.
        mean: Of its ratings.
        sd: Their standard deviation, above 0 (of the data as they are, divided by N).
    """

    label: str
    mean: float
    sd: float


def scale_of(data: TrainingData) -> RatingScale:
    """Return the mean and standard deviation of a data set's ratings.

    Raises:
        InputError: A rating that is not finite (names the row), too few, or all the same.
    """
    ratings = np.asarray(data.rated.ratings, dtype=np.float64)
    missing = np.flatnonzero(~np.isfinite(ratings))
    if len(missing):
        row = int(missing[0])
        raise InputError(
            f"{data.name}: ratings[{row}] is {ratings[row]}; expected a finite number: leave the segment out."
        )
    if len(ratings) < LEAST_SEGMENTS or (ratings == ratings[0]).all():
        found = f"all {len(ratings)} are {ratings[0]:g}" if len(ratings) else "there is none"
        raise InputError(
            f"{data.name}: ratings do not vary ({found}); there is nothing to learn from them: leave the data set out."
        )
    return RatingScale(data.label, float(ratings.mean()), float(ratings.std()))


def examples(data: Sequence[TrainingData], scales: Sequence[RatingScale]) -> list[TrainingExample]:
    """Return all segments of all data sets, each rating standardised within its own set.

    Args:
        data: The data sets.
        scales: One per data set.

    Raises:
        InputError: A text that cannot be scored; names data set and row.
    """
    found = []
    for one, scale in zip(data, scales, strict=True):
        targets = (np.asarray(one.rated.ratings, dtype=np.float64) - scale.mean) / scale.sd
        found += list(
            map(
                TrainingExample,
                *segments_of(one),
                targets.tolist(),
                [(one.name, str(group)) for group in one.rated.group],
            )
        )
    return found


def check_groups(rows: Sequence[TrainingExample]) -> None:
    """Refuse groups in which there is no correlation: too few segments, or ratings that are all the same.

    Raises:
        InputError: There are; names them.
    """
    groups = dict[tuple[str, str], list[float]]()
    for row in rows:
        groups.setdefault(row.group, []).append(row.target)
    if small := [
        f"{name}, group {group} ({len(own)})" for (name, group), own in groups.items() if len(own) < LEAST_CORRELATED
    ]:
        raise InputError(
            f"loss=pearson needs {LEAST_CORRELATED} segments of a group: leave out {'; '.join(small)}, or train "
            "with loss=mse."
        )
    if constant := [f"{name}, group {group}" for (name, group), own in groups.items() if min(own) == max(own)]:
        raise InputError(
            f"loss=pearson needs ratings that vary within a group: leave out {'; '.join(constant)}, or train "
            "with loss=mse."
        )


def segments_of(data: TrainingData) -> Segments:
    """Return the texts of a data set, checked.

    Raises:
        InputError: A text that cannot be scored; names data set and row.
    """
    try:
        return check_segments(data.rated.predictions, data.rated.references)
    except InputError as error:
        raise InputError(f"{data.name}: {error}") from error


def check_held_out(data: Sequence[TrainingData], holdout: Sequence[TrainingData]) -> None:
    """Refuse data to train on, or to choose by, that hold segments on which the metric will be tested.

    Two segments are the same when they have a reference in common, whatever the prediction: a model that has seen how
    people rate
    translations of a sentence knows the sentence. Runs of white space count as one space, and case does not
    count.

    Raises:
        InputError: They do; says of every data set how many.
    """
    tested = set().union(*map(_references, holdout))
    found = [(one, _count(one, tested)) for one in data]
    if shared := ", ".join(f"{one.name} {count} of {len(one.rated.ratings)}" for one, count in found if count):
        names = ", ".join(one.name for one in holdout)
        raise InputError(
            f"segments whose reference is held out ({names}): {shared}; take them out of the data, or the test "
            "means nothing."
        )


def warn_about_overlap(train: Sequence[TrainingData], dev: Sequence[TrainingData]) -> None:
    """Say how many segments the epoch is chosen by have a reference that the model was trained on."""
    seen = set().union(*map(_references, train))
    for one in dev:
        if count := _count(one, seen):
            warn(
                f"{one.name}: segments whose reference is in the training data, too: {count} of "
                f"{len(one.rated.ratings)}; dev flatters the model."
            )


def _count(data: TrainingData, references: set[str]) -> int:
    return sum(not references.isdisjoint(map(normalise, texts)) for texts in segments_of(data).references)


def _references(data: TrainingData) -> set[str]:
    texts: Iterable[list[str]] = segments_of(data).references
    return {normalise(text) for own in texts for text in own}


def hashes_of(data: Iterable[TrainingData]) -> Hashes:
    """Hash the references of data sets, so that a metric trained on them can say so."""
    return {one.label: hash_references(one.rated.references) for one in data}
