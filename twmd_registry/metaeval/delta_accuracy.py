"""What a difference of two systems' scores means: how often people prefer the system that scores higher.

Kocmi, Zouhar, Federmann and Post (2024): for two systems whose scores on n segments differ by x it is ``p(x, n) = Phi(x
/ sqrt(s^2 + t^2 / n))``; metric and people disagree about whole systems by s, about segments by t.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from twmd_registry.errors import InputError, ModelError
from twmd_registry.judgments.rated import RatedSegments, require_labels
from twmd_registry.metaeval.agreement import LEVEL
from twmd_registry.metaeval.correlation import place_systems
from twmd_registry.models.fitted import FittedKind, FittedPart, find_for_metric, hash_of
from twmd_registry.record.content import DeltaAccuracy, SystemComparison
from twmd_registry.registry.members import write_members
from twmd_registry.registry.signature import parse_signature
from twmd_registry.registry.spec import MetricSpec

DELTA_ACCURACY = FittedKind("delta accuracy", "delta-accuracies", "delta-accuracy", ".json", "delta_accuracy")
SIZES = (50, 100, 200, 400, 800, 1600)
"""Segments of the comparisons that are fitted on, beside all segments."""
DRAWS, RESAMPLES = 20, 200
"""Draws of segments of every size; resamples of systems for the interval."""
LEAST_SYSTEMS = 5
COMPARISON = np.dtype("f8, i8, ?, i8, i8, f8")
COMPARISON.names = ("difference", "segments", "agreed", "first", "second", "weight")
"""Two systems on the same segments: the difference of their scores, 0 or more; whether people prefer the system that
scores higher, over all segments; the systems' numbers; a weight, by which every number of segments counts the same."""


def list_comparisons(scores: Sequence[float], rated: RatedSegments) -> np.ndarray:
    """Compare the systems of every group on samples of the segments that all of them have; return `COMPARISON` rows."""
    items, every_system = (np.array(require_labels(rated, role, "a fit of accuracy")) for role in ("item", "system"))
    rng, rows, counted = np.random.default_rng(0), list[tuple[float, ...]](), 0
    for group in sorted(set(rated.group)):
        members = np.flatnonzero(np.array(rated.group) == group)
        systems, place = place_systems(items[members], every_system[members])
        place = members[place]
        if len(systems) >= LEAST_SYSTEMS and place.size:
            rows += _compare(np.asarray(scores)[place], rated.ratings[place].mean(axis=1), counted, rng)
            counted += len(systems)
    if not rows:
        raise InputError(f"comparisons of systems need {LEAST_SYSTEMS} systems with segments in common.")
    comparisons = np.array([(*row, 0.0) for row in rows], dtype=COMPARISON)
    _, code, counts = np.unique(comparisons["segments"], return_inverse=True, return_counts=True)
    comparisons["weight"] = 1 / counts[code]
    return comparisons


def _compare(
    scores: np.ndarray, people: np.ndarray, start: int, rng: np.random.Generator
) -> Iterator[tuple[float, ...]]:
    """Yield difference, segments, agreement and the systems' numbers of every comparison in one group."""
    most = scores.shape[1]
    for size, draws in (*((size, DRAWS) for size in SIZES if size < most), (most, 1)):
        for _ in range(draws):
            means = scores[:, rng.choice(most, size, replace=False)].mean(axis=1)
            for i, j in itertools.combinations(range(len(means)), 2):
                difference = means[i] - means[j]
                if difference and people[i] != people[j]:
                    alike = (difference > 0) == (people[i] > people[j])
                    yield float(abs(difference)), size, alike, start + i, start + j


def fit_spread(comparisons: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the s and t of the greatest weighted likelihood."""
    from scipy.optimize import minimize

    scale = float(np.median(comparisons["difference"]))

    def loss(logarithms: np.ndarray) -> float:
        p = _accuracy(comparisons["difference"], comparisons["segments"], *(scale * np.exp(logarithms)))
        likelihood = np.where(comparisons["agreed"], p, 1 - p)
        return -float(weights @ np.log(np.maximum(likelihood, 1e-12)))

    fit = minimize(loss, np.array([0.0, 2.0]), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-6})
    s, t = scale * np.exp(fit.x)
    return float(s), float(t)


def _accuracy(differences: np.ndarray, segments: np.ndarray, s: float, t: float) -> np.ndarray:
    from scipy.special import ndtr

    return np.asarray(ndtr(differences / np.sqrt(s * s + t * t / segments)))


def fit_delta_accuracy(metric: MetricSpec, scored: Mapping[str, tuple[Sequence[float], RatedSegments]]) -> bytes:
    """Fit the delta accuracy of a metric, as it was applied, to scores and ratings by data set; return its file."""
    parts, systems = list[np.ndarray](), 0
    for scored_segments in scored.values():
        part = list_comparisons(*scored_segments)
        for column in ("first", "second"):
            part[column] += systems
        parts.append(part)
        systems = int(part["second"].max()) + 1
    every, rng, resampled = np.concatenate(parts), np.random.default_rng(0), list[tuple[float, float]]()
    for _ in range(RESAMPLES):
        drawn = np.bincount(rng.integers(0, systems, systems), minlength=systems)
        resampled.append(fit_spread(every, every["weight"] * drawn[every["first"]] * drawn[every["second"]]))
    about = {
        "metric": write_members([(1.0, metric)]),
        "data": list(scored),
        "systems": systems,
        "spread": fit_spread(every, every["weight"]),
        "resampled": [[float(f"{value:.4g}") for value in pair] for pair in resampled],
    }
    return f"{json.dumps(about)}\n".encode()


def estimate(part: FittedPart[np.ndarray], difference: float, segments: int) -> DeltaAccuracy:
    """Return how often people prefer the better of two systems, with a 95% interval, by fitted spreads."""
    s, t = part.content.T
    share, *resampled = _accuracy(np.abs(difference), np.array(segments), s, t)
    low, high = np.percentile(resampled, LEVEL)
    return DeltaAccuracy(float(share), float(low), float(high), part.hash)


def read_delta_accuracy(path: Path) -> FittedPart[np.ndarray]:
    """Read a fitted accuracy, as `estimate` takes it; raises ModelError for a damaged file."""
    content = path.read_bytes()
    if path.name != DELTA_ACCURACY.name(hash_of(content)):
        raise ModelError(f"{path} is not as 'twmd fit-accuracy' wrote it: remove it, or fit it again.")
    about: dict[str, Any] = json.loads(content)
    return FittedPart(np.array([about["spread"], *about["resampled"]]), hash_of(content), about)


def find_delta_accuracy(metric: MetricSpec) -> FittedPart[np.ndarray] | None:
    """Find the fitted accuracy of a metric with exactly these settings, as `find_for_metric`."""
    return find_for_metric(DELTA_ACCURACY, read_delta_accuracy, write_members([(1.0, metric)]))


def add_delta_accuracies(comparison: SystemComparison, references: Sequence[Sequence[str]]) -> SystemComparison:
    """Add the accuracy of every difference to the first system, which is fitted for one reference, to its cell."""
    if max(map(len, references)) > 1:
        return comparison
    columns = []
    for column in comparison.columns:
        signature = column.long_signature or column.signature
        if not column.hundred and (fit := find_delta_accuracy(parse_signature(signature).spec)):
            first, *others = column.cells
            differences = [cell.score - first.score for cell in others]
            accuracies = [estimate(fit, each, len(references)) if each else None for each in differences]
            cells = (replace(cell, accuracy=one) for cell, one in zip(others, accuracies, strict=True))
            column = column._replace(cells=(first, *cells))  # noqa: PLW2901
        columns.append(column)
    return comparison._replace(columns=tuple(columns))
