"""Tune settings by agreement with human ratings: Appendix B of the TWMD paper, for more keys than temperature."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

import numpy as np

from twmd_registry.encode.encoder import Encoder
from twmd_registry.engine.scorer import Scorer, score_with
from twmd_registry.engine.token_backend import TokenAlignmentBackend
from twmd_registry.errors import InputError, SpecError
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.messages import collect_warnings, warn
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import MetricName, Special, Vectors
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.presets import Preset, write_presets
from twmd_registry.registry.spec import make_spec

_Item = TypeVar("_Item")


class Trial(NamedTuple):
    """A setting and its Pearson correlation: averaged over groups, then over data sets, weighted by size."""

    spec: MetricSpec
    pearson: float


GRID: dict[str, tuple[Any, ...]] = {
    "special": get_args(Special),
    "centering": ("none", "dimension", "sentence", "background", "batch"),
    "temperature": (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3, 0.5),
    "vectors": get_args(Vectors),
}
"""Values to try for every key but the layer. Keys that a metric does not use are skipped."""
MAX_SETTINGS = 200
ORDERED = ("temperature", "layer")
"""Keys to thin out first if there are too many settings, because neighbouring values score alike."""
TIED_DIGITS = 3
"""Settings that agree to this many digits are tied. Smaller differences are due to chance on any data."""
SEGMENTS_PER_SETTING = 5
"""Rated segments per setting from which chance hardly improves the best setting."""
SAMPLE_SEGMENTS, SAMPLE_SETTINGS = 64, 8
"""Sample size for estimating the time."""


def settings(
    metric: str,
    model: str,
    layers: Iterable[int],
    tried: Mapping[str, Sequence[Any]] | None = None,
    *,
    max_settings: int | None = None,
    kept: Sequence[str] = (),
) -> list[MetricSpec]:
    """Return all settings of the grid for a metric, a model and its layers.

    Args:
        metric: The metric.
        model: The model.
        layers: The layers to try.
        tried: Values by key, which replace or extend `GRID`.
        max_settings: Limit. Fewer values are tried of the keys in `ORDERED`, then of others.
        kept: Keys whose values are all tried.

    Returns:
        The valid settings.

    >>> tried = {"temperature": [0.1, 0.2], "special": ["cls"], "centering": ["none"]}
    >>> [spec.temperature for spec in settings("twmd", "a/b", [3], tried)]
    [0.1, 0.2]
    """
    keys = entry(metric).keys
    if "layer" not in keys:
        raise SpecError(f"{metric} has no layer, temperature or centering to tune.")
    axes: dict[str, Iterable[Any]] = {"layer": layers, **GRID, **(tried or {})}
    grid = {name: tuple(values) for name, values in axes.items() if name in keys}
    if metric != MetricName.BERTSCORE_CENTERED:
        grid["special"] = tuple(value for value in grid["special"] if value != "partners")
    if max_settings is not None:
        grid = _thin_out(grid, max_settings, kept)
    specs = list[MetricSpec]()
    for values in itertools.product(*grid.values()):
        with suppress(SpecError):  # exclusive values, such as raw vectors with sentence centering
            specs.append(make_spec(metric, model=model, **dict(zip(grid, values, strict=True))))
    if not specs:
        raise SpecError(f"{metric}: no combination of the values to try is possible: change --try or --set.")
    return specs


def _thin_out(grid: Mapping[str, Sequence[Any]], max_settings: int, kept: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Remove values from the longest axes of a grid until it has at most `max_settings` settings."""
    sizes = {name: len(values) for name, values in grid.items()}
    for names in (ORDERED, tuple(grid)):
        free = [name for name in names if name in grid and name not in kept]
        while math.prod(sizes.values()) > max_settings and any(sizes[name] > 1 for name in free):
            sizes[max(free, key=sizes.__getitem__)] -= 1
    return {name: tuple(spread(values, sizes[name])) for name, values in grid.items()}


def spread(values: Sequence[_Item], number: int) -> list[_Item]:
    """Return at most `number` values, evenly spread and away from the ends.

    >>> spread([1, 2, 3, 4, 5, 6], 3)
    [2, 4, 6]
    """
    number = min(number, len(values))
    return [values[(2 * i + 1) * len(values) // (2 * number)] for i in range(number)]


def tune(
    specs: Sequence[MetricSpec],
    data: Sequence[RatedSegments],
    options: RunOptions,
    progress: Progress | None = None,
    announce: Callable[[float], None] | None = None,
) -> list[Trial]:
    """Measure settings on rated data; return them as applied, best first. `announce` gets `estimate_seconds`."""
    scorers = [Scorer(spec, options) for spec in specs]  # all at once, so the model is loaded only once
    if announce is not None:
        announce(estimate_seconds(scorers, data))
    expect(progress, sum(len(rated.ratings) for rated in data))
    by_set = [mean_correlations(scorers, rated, progress) for rated in data]
    weighted = np.average(by_set, axis=0, weights=[len(rated.ratings) for rated in data])  # (specs,)
    pairs = zip(scorers, specs, strict=True)
    applied = [scorer.spec.replace(model=spec.model, adapter=spec.adapter) for scorer, spec in pairs]
    trials = [Trial(spec, pearson) for spec, pearson in zip(applied, weighted.tolist(), strict=True)]
    defaults = {spec.metric: make_spec(spec.metric, model=spec.model).values() for spec, _ in trials}

    def place(trial: Trial) -> tuple[float, int]:
        """Sort by correlation; among tied settings, prefer the one closest to the default."""
        known = defaults[trial.spec.metric]
        changed = sum(known.get(name) != value for name, value in trial.spec.values().items())
        return math.inf if math.isnan(trial.pearson) else -round(trial.pearson, TIED_DIGITS), changed

    return sorted(trials, key=place)


def half_width(pearson: float, data: Sequence[RatedSegments]) -> float:
    """Return half the width of the 95% interval of a mean correlation over groups.

    The variance of Pearson's r is ``(1 - r^2)^2 / (n - 3)``; NaN if a group has at most three segments.
    """
    total, variance = sum(len(rated.ratings) for rated in data), 0.0
    for rated in data:
        sizes = Counter(rated.group).values()
        weight = len(rated.ratings) / total / len(sizes)
        variance += sum(weight**2 * (1 - pearson**2) ** 2 / (size - 3) if size > 3 else math.nan for size in sizes)
    return 1.96 * math.sqrt(variance)


def mean_correlations(scorers: Sequence[Scorer], rated: RatedSegments, progress: Progress | None = None) -> np.ndarray:
    """Return every setting's mean over groups of Pearson's r; shape (settings,).

    Groups are scored separately, so no centering batch spans two of them. A setting without any correlation gets
    NaN. A group in which some other setting has no correlation is left out for all.
    """
    names, groups = np.array(rated.group), list(dict.fromkeys(rated.group))
    correlations, reasons = np.full((len(groups), len(scorers)), np.nan), dict[str, str]()
    for row, group in enumerate(groups):
        part = select(rated, np.flatnonzero(names == group))
        sets = score_with(scorers, part.predictions, part.references, sources=part.source, progress=progress)
        for column, scores in enumerate(sets):
            try:
                correlations[row, column] = correlate("pearson", scores.scores, part.ratings)
            except InputError as error:
                reasons.setdefault(group, str(error))
    defined = ~np.isnan(correlations)
    has_value = defined.any(axis=0)  # (settings,)
    if has_value.any() and not has_value.all():
        warn(f"{(~has_value).sum()} of {len(has_value)} settings have no correlation: {next(iter(reasons.values()))}")
    kept = defined[:, has_value].all(axis=1) & has_value.any()  # (groups,)
    for group in itertools.compress(groups, ~kept):
        warn(f"{group}, left out: a setting has no correlation: {reasons[group]}")
    if not kept.any():
        raise InputError(f"no group has a correlation: {', '.join(groups)} ({len(rated.ratings)} segments).")
    return np.asarray(np.where(has_value, correlations[kept].mean(axis=0), np.nan))


def layers_above_embeddings(model: str, options: RunOptions) -> range:
    """Load a model and return its layers above the embeddings; raise ModelError if it cannot be loaded."""
    spec = make_spec(MetricName.SBERT, model=model, layer=0, centering="none")
    encoder: Encoder = TokenAlignmentBackend(spec, options).model
    return range(1, encoder.depth + 1)


def estimate_seconds(scorers: Sequence[Scorer], data: Sequence[RatedSegments]) -> float:
    """Estimate the time of scoring, without loading the model, from a spread of settings and segments.

    Let t(k) be the seconds that k settings take on n of N segments. S settings then take ``(t(1) + (S - 1) (t(k) -
    t(1)) / (k - 1)) N / n``. Texts are encoded once, up to the highest layer, so t(1) measures the last setting.
    """
    segments = [(rated, row) for rated in data for row in range(len(rated.predictions))]
    sample = spread(segments, SAMPLE_SEGMENTS)
    predictions = [rated.predictions[row] for rated, row in sample]
    references = [rated.references[row] for rated, row in sample]
    texts = predictions, [[texts] if isinstance(texts, str) else texts for texts in references]
    known = [(rated.source or [])[row] for rated, row in sample] if all(rated.source for rated in data) else None
    few = [*spread(scorers[:-1], SAMPLE_SETTINGS - 1), scorers[-1]]
    seconds = []
    with collect_warnings():  # scoring all segments repeats these warnings
        score_with(few, *texts, sources=known)  # loads the model
        for timed in (few[-1:], few):
            started = time.perf_counter()
            score_with(timed, *texts, sources=known)
            seconds.append(time.perf_counter() - started)
    more = (len(scorers) - 1) * max(seconds[1] - seconds[0], 0.0) / max(len(few) - 1, 1)
    return (seconds[0] + more) * len(segments) / len(predictions)


def varied_keys(trials: Sequence[Trial]) -> list[str]:
    """Return the keys in which settings differ, in a signature's order, and always the layer."""
    values = [spec.values() for spec, _ in trials]
    return [name for name in KEYS if name == "layer" or len({str(setting.get(name)) for setting in values}) > 1]


def write_preset(name: str, trials: Sequence[Trial], data: Sequence[str]) -> str:
    """Write a TOML table of presets: every metric's best trial. Trials share one model and are sorted, best first."""
    scored, presets = ", ".join(data), []
    for metric in dict.fromkeys(spec.metric for spec, _ in trials):
        of_metric = [trial for trial in trials if trial[0].metric == metric]
        (best, pearson), varied = of_metric[0], varied_keys(of_metric)
        mean = f"mean Pearson {pearson:.4f}, the best of {len(of_metric)} settings of {', '.join(varied)}"
        about = f"Appendix B procedure on {scored}: {mean}."
        values = best.values()
        for part in ("model", "adapter"):  # absolute folders stay valid in any working directory
            if values.get(part) and Path(str(values[part])).is_dir():
                values[part] = str(Path(str(values[part])).resolve())
        presets.append(Preset(name, metric, values, about, best.fingerprint, tuned=tuple(varied), tuned_on=tuple(data)))
    title = f"TWMD paper, Appendix B: mean Pearson over the groups of {scored}, weighted by size."
    return write_presets(name, title, presets)
