"""Choosing settings by agreement with people: Appendix B of the TWMD paper, over more than temperature.

For every data set the Pearson correlation is taken within each group (a language pair) and averaged over the groups;
the
data sets' numbers are averaged weighted by their sizes; the setting with the highest average wins.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from twmd_registry.encode.encoder import Encoder
from twmd_registry.engine.backends import TokenAlignmentBackend
from twmd_registry.engine.scorer import Scorer, score_all
from twmd_registry.errors import InputError, SpecError, collect_warnings, warn
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.keys import KEYS, Value, key
from twmd_registry.registry.names import Centering, MetricName, Special, Vectors
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.presets import Preset, write_presets
from twmd_registry.registry.spec import MetricSpec, make_spec

_Item = TypeVar("_Item")

TEMPERATURES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3, 0.5)
GRID: dict[str, tuple[Any, ...]] = {
    "special": tuple(Special),
    "centering": (Centering.NONE, Centering.DIMENSION, Centering.SENTENCE, Centering.BACKGROUND, Centering.BATCH),
    "temperature": TEMPERATURES,
    "vectors": tuple(Vectors),
}
"""What is tried for every key but the layer; a metric that does not use a key leaves it out."""
MOST_SETTINGS = 200
"""Settings that are tried by default."""
ORDERED = ("temperature", "layer")
"""Keys of which fewer values are tried first where there are too many settings: neighbouring values score alike."""
SAMPLE_SEGMENTS, SAMPLE_SETTINGS = 64, 8
"""What the time is estimated on."""


class Trial(NamedTuple):
    """One setting and its agreement.

    Attributes:
        spec: The setting.
        pearson: Mean over groups, then over data sets weighted by size.
    """

    spec: MetricSpec
    pearson: float


def read_tried(texts: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """Read what is to be tried for a key, instead of `GRID`.

    Args:
        texts: ``KEY=VALUE,VALUE,...`` each; a comma inside a value is written ``%2C``.

    Raises:
        SpecError: No such key, no value, or one that is not possible.
    """
    found: dict[str, tuple[Value, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values or name in {*found, "layer", "model"}:
            raise SpecError(
                f"{text!r}: expected KEY=VALUE,VALUE once per key, and no layer or model (they have options of "
                "their own)."
            )
        found[name] = tuple(key(name).parse(value.replace("%2C", ",")) for value in values.split(","))
    return found


def settings(
    metric: str,
    model: str,
    layers: Iterable[int],
    tried: Mapping[str, Sequence[Any]] | None = None,
    *,
    most: int | None = None,
    kept: Sequence[str] = (),
) -> Iterator[MetricSpec]:
    """Every setting of the grid for one metric.

    Args:
        metric: The metric.
        model: The encoder.
        layers: Hidden states to try.
        tried: By key, what is tried instead of, or beside, `GRID`; of a metric that does not use the key nothing.
        most: How many settings at most: fewer values, evenly spread, are tried of the keys in `ORDERED`, then of
            others. None for all.
        kept: Keys of which all values are tried whatever `most` says.

    Raises:
        SpecError: A metric without layers (it has nothing to tune here), or no combination that is possible.

    >>> tried = {"temperature": [0.1, 0.2], "special": ["cls"], "centering": ["none"]}
    >>> [spec.temperature for spec in settings("twmd", "a/b", [3], tried)]
    [0.1, 0.2]
    """
    keys = entry(metric).keys
    if "layer" not in keys:
        raise SpecError(f"{metric} has no layer, temperature or centering to tune.")
    grid: dict[str, tuple[Any, ...]] = {
        name: tuple(values) for name, values in {"layer": layers, **GRID, **(tried or {})}.items() if name in keys
    }
    if metric != MetricName.BERTSCORE_CENTERED:
        grid["special"] = tuple(value for value in grid["special"] if value != Special.PARTNERS)
    if most is not None:
        grid = _thinned(grid, most, kept)
    found = 0
    for values in itertools.product(*grid.values()):
        given: dict[str, Any] = dict(zip(grid, values, strict=True))
        try:
            spec = make_spec(metric, model=model, **given)
        except SpecError:  # values that exclude each other, as raw vectors and sentence centering
            continue
        found += 1
        yield spec
    if not found:
        raise SpecError(f"{metric}: no combination of what is to be tried is possible.")


def _thinned(grid: Mapping[str, Sequence[Any]], most: int, kept: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Take values out of the longest axes of a grid until it has at most so many settings."""
    sizes = {name: len(values) for name, values in grid.items()}
    for names in (ORDERED, tuple(grid)):
        free = [name for name in names if name in grid and name not in kept]
        while math.prod(sizes.values()) > most and any(sizes[name] > 1 for name in free):
            sizes[max(free, key=sizes.__getitem__)] -= 1
    return {name: tuple(spread(values, sizes[name])) for name, values in grid.items()}


def spread(values: Sequence[_Item], number: int) -> list[_Item]:
    """Take so many values, evenly spread and away from the ends; all where there are no more.

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
    """Measure settings on rated data, best first; each text of a group is encoded once for all of them.

    Args:
        specs: Settings to compare.
        data: Rated data sets.
        options: Where and how fast.
        progress: Called with the number of segments scored.
        announce: Called once at the start with the time that it will take, in seconds, as `estimate_seconds` measures
            it.

    Returns:
        The settings as they were applied, with the model as it was named.

    Raises:
        InputError: As for `mean_correlations`.
    """
    scorers = [Scorer(spec, options) for spec in specs]  # held together, or the model would be loaded again for each
    if announce is not None:
        announce(estimate_seconds(scorers, data))
    expect(progress, sum(len(rated.ratings) for rated in data))
    by_set = [mean_correlations(scorers, rated, progress) for rated in data]
    weighted = np.average(by_set, axis=0, weights=[len(rated.ratings) for rated in data])  # (specs,)
    applied = [
        one.spec.replace(model=spec.model, adapter=spec.adapter) for one, spec in zip(scorers, specs, strict=True)
    ]
    return sorted(map(Trial, applied, weighted.tolist()), key=lambda trial: -trial.pearson)


def mean_correlations(scorers: Sequence[Scorer], rated: RatedSegments, progress: Progress | None = None) -> np.ndarray:
    """Correlate every setting's scores with ratings: Pearson's r within each group, and the plain mean over groups.

    Groups are scored apart, so that no centering batch spans two of them; each text of a group is encoded once for all
    settings. A group that
    has no correlation by any setting (fewer than three rows, ratings that do not vary) is left out.

    Args:
        scorers: The settings.
        rated: One data set.
        progress: Called with the number of segments scored.

    Returns:
        Shape (settings,).

    Raises:
        InputError: No group has a correlation, or a setting whose scores of a group do not vary where those of others
            do.

    Warns:
        TwmdWarning: A group was left out; says why.
    """
    names, means = np.array(rated.group), []
    for group in dict.fromkeys(rated.group):
        own = select(rated, np.flatnonzero(names == group))
        found = score_all(scorers, own.predictions, own.references, progress=progress)
        pearson, reasons = np.full(len(scorers), np.nan), []
        for i, one in enumerate(found):
            try:
                pearson[i] = correlate("pearson", one.scores, own.ratings)
            except InputError as error:
                reasons.append(str(error))
        if reasons:
            warn(f"{group}: no correlation for {len(reasons)} of {len(scorers)} settings: {reasons[0]}")
        if 0 < len(reasons) < len(scorers):
            setting = scorers[int(np.isnan(pearson).argmax())]
            raise InputError(
                f"group {group}: pearson is undefined for {setting}, and not for others: they cannot be compared."
            )
        if not reasons:
            means.append(pearson)
    if not means:
        raise InputError(
            f"no group has a correlation: {', '.join(dict.fromkeys(rated.group))} ({len(rated.ratings)} segments)."
        )
    return np.array(np.mean(means, axis=0))


def layers_above_embeddings(model: str, options: RunOptions) -> range:
    """Return every layer of a model above its embeddings. Loads the model.

    Raises:
        ModelError: The model is not here or cannot be loaded.
    """
    backend = TokenAlignmentBackend(
        make_spec(MetricName.SBERT, model=model, layer=0, centering=Centering.NONE), options
    )
    encoder: Encoder = backend.model
    return range(1, encoder.depth + 1)


def estimate_seconds(scorers: Sequence[Scorer], data: Sequence[RatedSegments]) -> float:
    """Estimate how long scoring takes, from a few settings and a few segments, both spread over all there are.

    With t(k) the seconds that k settings take on n of N segments, S settings take ``(t(1) + (S - 1) (t(k) - t(1)) / (k
    - 1)) N / n``. Texts are
    encoded once for all settings, up to the highest layer; t(1) is of the last setting, which reads it.

    Args:
        scorers: The settings, S of them.
        data: Rated data sets, of N segments together.

    Returns:
        Seconds, without those that loading the model takes.

    Raises:
        TwmdError: As for `score_all`.
    """
    segments = [(text, own) for rated in data for text, own in zip(rated.predictions, rated.references, strict=True)]
    predictions, references = zip(*spread(segments, SAMPLE_SEGMENTS), strict=True)
    texts = predictions, [[own] if isinstance(own, str) else own for own in references]
    few = [*spread(scorers[:-1], SAMPLE_SETTINGS - 1), scorers[-1]]
    with collect_warnings():  # they come again
        score_all(few, *texts)  # loads the model
        one, several = (_seconds_of(own, *texts) for own in (few[-1:], few))
    more = (len(scorers) - 1) * max(several - one, 0.0) / max(len(few) - 1, 1)
    return (one + more) * len(segments) / len(predictions)


def _seconds_of(scorers: Sequence[Scorer], predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    started = time.perf_counter()
    score_all(scorers, predictions, references)
    return time.perf_counter() - started


def varied_keys(trials: Sequence[Trial]) -> list[str]:
    """The keys in which settings differ, in a signature's order; the layer always."""
    values = [trial.spec.values() for trial in trials]
    return [name for name in KEYS if name == "layer" or len({str(one.get(name)) for one in values}) > 1]


def write_preset(name: str, trials: Sequence[Trial], data: Sequence[str]) -> str:
    """A TOML table of presets: of every metric the best setting, with where it comes from.

    Args:
        name: The preset's name.
        trials: Best first, of one model.
        data: What was scored: name, content and size of every data set, as in the file of their hashes.
    """
    scored = ", ".join(data)
    own_presets = []
    for metric in dict.fromkeys(trial.spec.metric for trial in trials):
        own = [trial for trial in trials if trial.spec.metric == metric]
        best, names = own[0], varied_keys(own)
        about = (
            f"Appendix B procedure on {scored}: mean Pearson {best.pearson:.4f}, the best of {len(own)} settings of "
            f"{', '.join(names)}."
        )
        own_presets.append(
            Preset(
                name,
                metric,
                _placed(best.spec.values()),
                about,
                best.spec.fingerprint,
                tuned=tuple(names),
                tuned_on=tuple(data),
            )
        )
    return write_presets(
        name, f"TWMD paper, Appendix B: mean Pearson over the groups of {scored}, weighted by size.", own_presets
    )


def _placed(values: dict[str, Any]) -> dict[str, Any]:
    """Keys with folders written so that they are found from any working folder."""
    folders = {
        name: str(Path(str(values[name])).resolve())
        for name in ("model", "adapter")
        if values.get(name) and Path(str(values[name])).is_dir()
    }
    return values | folders
