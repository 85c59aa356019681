"""Training data: rated segments, checked, with standardised ratings, and drawn in batches."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import regex
from torch.utils.data import BatchSampler

from twmd_registry.engine.input_warnings import check_scripts
from twmd_registry.engine.pairs import Segments, check_segments, make_pairs
from twmd_registry.errors import InputError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import content_of
from twmd_registry.messages import warn
from twmd_registry.metaeval.overlap import Hashes, hash_references, normalise
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.presets import describe_model
from twmd_registry.train.recipe import MIN_CORRELATED, Recipe

MIN_SEGMENTS = 2
"""Minimum segments. A single rating equals its mean and teaches nothing."""
ROUNDING = 1e-6
"""Relative difference below which ratings count as constant. A teacher's scores of copies differ by rounding."""
WINDOW = 8
"""Batches whose rows are sorted by length together."""

Example = tuple[str, list[str], float, tuple[str, str]]
"""Prediction, references, standardised rating, and (data set, group within it)."""


class TrainingData(NamedTuple):
    """A rated data set with its name in a model card; `compared` says whether its references are really sources."""

    name: str
    rated: RatedSegments
    compared: str = "reference"

    @property
    def label(self) -> str:
        """Name, content hash and size."""
        return f"{self.name}@{content_of(self.rated)} ({len(self.rated.ratings)} segments)"


def rating_scale(data: TrainingData) -> tuple[float, float]:
    """Return the mean and the standard deviation (with divisor N, above 0) of a data set's ratings."""
    ratings = np.asarray(data.rated.ratings, dtype=np.float64)
    missing = np.flatnonzero(~np.isfinite(ratings))
    if len(missing):
        rating = f"ratings[{missing[0]}] is {ratings[missing[0]]}"
        raise InputError(f"{data.name}: {rating}; expected a finite number: leave the segment out.")
    if len(ratings) < MIN_SEGMENTS or np.ptp(ratings) <= ROUNDING * abs(ratings[0]):
        values = f"all {len(ratings)} are {ratings[0]:g}" if len(ratings) else "there is none"
        hint = "nothing can be learned from them: leave the data set out"
        raise InputError(f"{data.name}: ratings do not vary ({values}); {hint}.")
    return float(ratings.mean()), float(ratings.std())


def with_sources(data: TrainingData, spec: MetricSpec) -> TrainingData:
    """Return the data as the metric sees them: with ``against=source``, sources replace the references."""
    if spec.against is None:
        return data
    if data.rated.source is None:
        raise InputError(f"{data.name} has no sources, but {spec.metric} needs them (against={spec.against}).")
    return data._replace(rated=data.rated._replace(references=data.rated.source), compared="source")


def make_examples(data: Sequence[TrainingData]) -> list[Example]:
    """Return the segments of all data sets with ``z = (rating - mean) / sd``, standardised within each set."""
    examples: list[Example] = []
    for source in data:
        mean, sd = rating_scale(source)
        targets = ((np.asarray(source.rated.ratings, dtype=np.float64) - mean) / sd).tolist()
        groups = [(source.name, str(group)) for group in source.rated.group]
        examples += zip(*segments_of(source)[:2], targets, groups, strict=True)
    return examples


def segments_of(data: TrainingData) -> Segments:
    """Return a data set's checked texts; an error names data set and row."""
    try:
        return check_segments(data.rated.predictions, data.rated.references)
    except InputError as error:
        raise InputError(f"{data.name}: {error}") from error


def check_readable(data: TrainingData, spec: MetricSpec, *, any_language: bool) -> None:
    """Refuse texts in scripts that the requested metric's model does not read, or warn about them, like scoring."""
    segments, preset = segments_of(with_sources(data, spec)), describe_model(spec.model)
    models, rows = [(spec, preset.scripts if preset else ())], range(len(segments.predictions))
    check_scripts(models, make_pairs(segments), rows, strict=not any_language, data=f"{data.name}: ")


def check_held_out(data: Sequence[TrainingData], holdout: Sequence[TrainingData], *, predictions: bool = False) -> None:
    """Refuse training and development data that share a reference with held-out data (with `predictions`, any text).

    White space, case, Unicode normalisation, and the shapes of quotes and dashes are ignored.
    """
    held_out = {text for source in holdout for texts in _fold_rows(source, predictions=predictions) for text in texts}
    shared = [
        f"{source.name} {len(rows)} of {len(source.rated.ratings)} (the first: {rows[0]})"
        for source in data
        if (rows := _rows_with(source, held_out, predictions=predictions))
    ]
    if shared:
        names = ", ".join(source.name for source in holdout)
        what = f"segments {'with a text that' if predictions else f'whose {holdout[0].compared}'} is held out"
        hint = "remove them from the data, or the test is meaningless"
        raise InputError(f"{what} ({names}): {', '.join(shared)}; {hint}.")


def warn_about_overlap(train: Sequence[TrainingData], dev: Sequence[TrainingData]) -> None:
    """Warn about development segments whose reference is in the training data."""
    known = {text for source in (train if dev else ()) for texts in _fold_rows(source) for text in texts}
    for source in dev:
        if rows := _rows_with(source, known):
            shared = f"{len(rows)} of {len(source.rated.ratings)}; dev overestimates the model"
            warn(f"{source.name}: segments whose {source.compared} is also in the training data: {shared}.")


def _rows_with(source: TrainingData, texts: set[str], *, predictions: bool = False) -> list[int]:
    """Return the segments, from 1, that contain one of the folded texts."""
    return [row for row, folded in enumerate(_fold_rows(source, predictions=predictions), 1) if folded & texts]


def _fold(text: str) -> str:
    """Normalise a text further than `normalise`, which published hashes use: also Unicode forms, quotes and dashes."""
    text = regex.sub(r"[`\p{Quotation_Mark}]", "'", unicodedata.normalize("NFKC", normalise(text)))
    return normalise(regex.sub(r"\p{Default_Ignorable_Code_Point}", "", regex.sub(r"\p{Dash}", "-", text)))


def _fold_rows(source: TrainingData, *, predictions: bool = False) -> Iterator[set[str]]:
    """Yield every segment's folded references, and with `predictions` its prediction."""
    for prediction, references in zip(*segments_of(source)[:2], strict=True):
        yield set(map(_fold, [prediction, *references] if predictions else references))


def hashes_of(data: Iterable[TrainingData]) -> Hashes:
    """Hash the references of data sets. A trained metric keeps them to detect overlap with test data."""
    return {source.label: hash_references(source.rated.references) for source in data}


class Batches(BatchSampler):
    """Draws batches of similar size, each from a single pool of rows, in an order that mixes the pools.

    Every pool is shuffled and cut into as few batches as possible, whose sizes differ by at most 1. The rows of every
    `WINDOW` batches are then sorted by length and cut again, to reduce padding.
    """

    def __init__(self, pools: Sequence[np.ndarray], lengths: np.ndarray, size: int, seed: int) -> None:
        """Store pools of row numbers, every row's length (in any unit; shape (rows,)), and the largest batch size."""
        self._pools, self._lengths, self._seed, self._epoch = list(pools), lengths, seed, 0
        self._counts = [math.ceil(len(pool) / size) for pool in self._pools]
        self.batch_size, self.drop_last = size, False

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch to draw next. A resumed run repeats the interrupted run's draw."""
        self._epoch = epoch

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return sum(self._counts)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the row numbers of every batch."""
        draw, batches = np.random.default_rng([self._seed, self._epoch]), []
        for pool, count in zip(self._pools, self._counts, strict=True):
            drawn = np.array_split(draw.permutation(pool), count)
            for start in range(0, count, WINDOW):
                rows = np.concatenate(window := drawn[start : start + WINDOW])
                batches += np.array_split(rows[np.argsort(self._lengths[rows], kind="stable")], len(window))
        yield from (batches[i].tolist() for i in draw.permutation(len(batches)).tolist())


def make_batches(examples: Sequence[Example], recipe: Recipe) -> Batches:
    """Return the batches of a recipe. With ``loss=pearson``, every batch has a single group of a single data set.

    Raises:
        InputError: With ``loss=pearson``, a group has no correlation: too few segments, or constant ratings.
    """
    lengths = np.array(
        [max(len(text.encode()) for text in (prediction, *references)) for prediction, references, *_ in examples]
    )
    if recipe.loss == "mse":
        return Batches([np.arange(len(examples))], lengths, recipe.batch, recipe.seed)
    groups = dict[tuple[str, str], list[int]]()
    for row, (*_, group) in enumerate(examples):
        groups.setdefault(group, []).append(row)
    wrong = [
        f"{name}, group {group} ({len(rows)})"
        for (name, group), rows in groups.items()
        if len(rows) < MIN_CORRELATED or len({examples[i][2] for i in rows}) == 1
    ]
    if wrong:
        need = f"{MIN_CORRELATED} segments of a group, and ratings that vary"
        raise InputError(f"loss=pearson needs {need}: leave out {'; '.join(wrong)}, or train with loss=mse.")
    # The order of the pools determines the draw; sorting by repr keeps it equal across versions.
    return Batches([np.array(groups[name]) for name in sorted(groups, key=repr)], lengths, recipe.batch, recipe.seed)
