"""Computes experiments on rated data, as tables beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.integrate import trapezoid

from twmd_registry.engine.scorer import Scorer, score_all
from twmd_registry.errors import FileError, InputError, ModelError, SpecError, warn
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.judgments.sets import FORMATS, read_hub
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.metaeval.diagnosis import Diagnosis, diagnose
from twmd_registry.metaeval.overlap import warn_about_overlap
from twmd_registry.metaeval.side_by_side import score_lexically
from twmd_registry.papers.experiment import (
    AVERAGE,
    EVERY,
    OWN,
    Experiment,
    ExperimentCell,
    Metric,
    Setting,
    make_settings,
)
from twmd_registry.papers.reproduction import GroupedSegments, Place, Reproduction
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import EMBEDDED_MODEL, MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import MetricSpec, make_spec

Scores = Mapping[Metric, Mapping[Place, np.ndarray]]
"""By metric and place, a score per segment."""
Signed = dict[Metric, tuple[MetricSpec | None, str]]
"""By metric, its specification as it was applied (None for a metric of SacreBLEU) and its signature."""


def reproduce(
    experiments: Sequence[Experiment],
    folder: Path | None,
    *,
    model: str = EMBEDDED_MODEL,
    layer: int | None = None,
    hub: bool = False,
    options: RunOptions | None = None,
    progress: Progress | None = None,
) -> list[Reproduction]:
    """Compute experiments of the same data again with any model; each text is encoded once for all their rows.

    Without a `layer`, it is the paper's for its models, else that of the model's preset or rule. With `hub`, what the
    folder of rated data does not hold is read from the Hugging Face Hub.
    """
    options = options or RunOptions()
    for experiment in experiments:
        _refuse(experiment, model, layer)
    rated = split_groups(experiments[0], read_sources(experiments[0], folder, hub=hub))
    with ExitStack() as stack:
        depth = 1
        if any(map(_needs_depth, experiments)):  # of word vectors it is 0
            spec = make_spec(MetricName.MOVERSCORE, "wmd", model=model, layer="last:1")
            depth = int(stack.enter_context(Scorer(spec, options)).spec.layer or 0)
        settings = {}
        for experiment in experiments:
            own = _own_layers(experiment, model, layer, options, stack)
            settings[experiment.name] = make_settings(experiment, model, own=own, asked=layer, depth=depth)
        every = [setting for own in settings.values() for setting in own]
        scorers = _open(every, options, stack)
        if not any(experiment.vary for experiment in experiments):
            _warn_about_overlap(every, scorers, rated)
        signed: Signed = {metric: (scorer.spec, scorer.signature) for metric, scorer in scorers.items()}
        scores = _score(every, scorers, rated, progress)
        first = next(segments for groups in rated.values() for segments in groups.values())
        lexical = [metric for metric in scores if isinstance(metric, str)]
        signed |= {metric: (None, score_lexically(metric, first)[1]) for metric in lexical}
        tabulate = partial(_tabulate, signed=signed, scores=scores, rated=rated)
        return [tabulate(each, settings[each.name], near=each.nearest(model, depth)) for each in experiments]


def diagnose_words(
    experiment: Experiment,
    folder: Path,
    options: RunOptions,
    *,
    model: str = EMBEDDED_MODEL,
    layer: int | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Diagnose a model's words on the different references of the experiment's set, under its ``centerings``."""
    _refuse(experiment, model, layer)
    (rated,) = read_sources(experiment, folder).values()
    result = diagnose(model, list(dict.fromkeys(rated.references)), options, progress=progress)
    shown = [k for k, centering in enumerate(result.centerings) if centering in experiment.centerings]
    return replace(result, centerings=tuple(result.centerings[k] for k in shown), estimates=result.estimates[shown])


def _own_layers(
    experiment: Experiment, model: str, layer: int | None, options: RunOptions, stack: ExitStack
) -> list[int]:
    """Return the model's ``own`` layers, ascending, for rows that read them; none without such rows.

    Unless a `layer` was asked for, they are the paper's of this model, else of its preset or rule.
    """
    rows = (experiment.keys | keys for keys in experiment.rows.values())
    if "layer" in experiment.vary or all(row.get("layer") != OWN for row in rows):
        return []
    if layer is None and (printed := {int(row.layer): 0 for row in experiment.printed if row.model == model}):
        return list(printed)
    read = stack.enter_context(Scorer(make_spec(MetricName.TWMD, model=model, layer=layer), options)).spec.layer
    if not isinstance(read, int):
        raise SpecError(f"{experiment.name} reads a single layer, and the preset of {model} reads {read}: set --layer.")
    return [read + offset for offset in experiment.offsets]


def _refuse(experiment: Experiment, model: str, layer: int | None) -> None:
    if experiment.fine_tuned and model == EMBEDDED_MODEL:
        raise SpecError(
            f"{experiment.name} is of models that were fine-tuned on WMT15-16: name such a model by --model."
        )
    if layer is not None and not experiment.reads_one_layer:
        raise SpecError(f"{experiment.name} does not read one layer alone: leave --layer {layer} out.")


def _needs_depth(experiment: Experiment) -> bool:
    layers = [row.get("layer") for row in experiment.rows.values()]
    share = any(isinstance(layer, float) for layer in layers)
    return share or EVERY in experiment.vary.values() or "static" in experiment.encoders


def _open(settings: Iterable[Setting], options: RunOptions, stack: ExitStack) -> dict[Metric, Scorer]:
    """Make the scorer of every metric of ours, and load its model, so that errors come before scoring."""
    scorers: dict[Metric, Scorer] = {}
    for setting in settings:
        for metric in (setting.metric, setting.against):
            if metric is None or isinstance(metric, str) or metric in scorers:
                continue
            scorer = stack.enter_context(Scorer(metric, options))
            try:
                _ = scorer.spec
            except ModelError as error:
                if not setting.optional:
                    raise
                warn(f"left out: {setting.row} ({error})")
            else:
                scorers[metric] = scorer
    return scorers


def _warn_about_overlap(settings: Sequence[Setting], scorers: Mapping[Metric, Scorer], rated: GroupedSegments) -> None:
    labels = {setting.metric: setting.row for setting in reversed(settings) if setting.metric in scorers}
    for name, groups in rated.items():
        references = [own for segments in groups.values() for own in segments.references]
        warn_about_overlap(labels.values(), [scorers[metric] for metric in labels], references, name)


def _score(
    settings: Sequence[Setting],
    scorers: Mapping[Metric, Scorer],
    rated: GroupedSegments,
    progress: Progress | None,
) -> Scores:
    """Score every group by every metric; groups of the same texts, rated otherwise, are scored once."""
    metrics = (metric for setting in settings for metric in (setting.metric, setting.against))
    lexical = dict.fromkeys(metric for metric in metrics if isinstance(metric, str))
    own = list(scorers.values())
    result: dict[Metric, dict[Place, np.ndarray]] = {metric: {} for metric in [*lexical, *scorers]}
    places = {(name, group): segments for name, groups in rated.items() for group, segments in groups.items()}
    same: dict[object, Place] = {}
    for place, segments in places.items():
        same.setdefault(_texts(segments), place)
    expect(progress, sum(len(places[place].ratings) for place in same.values()))
    for place, segments in places.items():
        first = same[_texts(segments)]
        if first == place:
            scored = score_all(own, segments.predictions, segments.references, progress=progress) if own else []
            for metric, own_scores in zip(scorers, scored, strict=True):
                result[metric][place] = np.array(own_scores.scores)
            for metric in lexical:
                result[metric][place] = np.array(score_lexically(metric, segments)[0])
        else:
            for scores in result.values():
                scores[place] = scores[first]
    return result


def _texts(segments: RatedSegments) -> object:
    references = (own if isinstance(own, str) else tuple(own) for own in segments.references)
    return tuple(segments.predictions), tuple(references)


def _tabulate(
    experiment: Experiment,
    settings: Sequence[Setting],
    *,
    signed: Signed,
    scores: Scores,
    rated: GroupedSegments,
    near: str,
) -> Reproduction:
    """Measure every cell of an experiment."""
    settings = [setting for setting in settings if setting.metric in scores]
    rated = {name: groups for name, groups in rated.items() if name in experiment.data}
    measured: dict[Place, dict[str, np.ndarray]] = {}  # shape (settings,) each
    for name, groups in rated.items():
        for group, segments in groups.items():
            own = [cell for cell in experiment.cells if cell.unit in {AVERAGE, name, group}]
            statistics = list(dict.fromkeys(cell.statistic for cell in own))
            samples = [_sample(setting, scores, (name, group), segments) for setting in settings]
            values = measure(samples, statistics, f"{name}, {group}" if len(groups) > 1 else name)
            measured[name, group] = dict(zip(statistics, experiment.scale * values.T, strict=True))
    averages = [_average(cell, experiment, measured, rated) for cell in experiment.cells]
    return Reproduction(
        experiment=experiment,
        near=near,
        settings=tuple(settings),
        specs=tuple(signed[setting.metric][0] for setting in settings),
        signatures=tuple(signed[setting.metric][1] for setting in settings),
        segments={cell.column: size for cell, (size, _) in zip(experiment.cells, averages, strict=True)},
        values=np.array([np.broadcast_to(own, len(settings)) for _, own in averages]).T,
        rated=rated,
        scores={setting.row: scores[setting.metric] for setting in settings},
    )


def _sample(setting: Setting, scores: Scores, place: Place, segments: RatedSegments) -> tuple[np.ndarray, np.ndarray]:
    """Return a setting's scores and what they are compared with."""
    own = scores[setting.metric][place]
    other = segments.ratings if setting.against is None else scores[setting.against][place]
    if not setting.half:
        return own, other
    lengths = pair_lengths(segments)
    longer = lengths >= np.median(lengths)
    rows = longer if setting.half == "longer" else ~longer
    return own[rows], other[rows]


def _average(
    cell: ExperimentCell,
    experiment: Experiment,
    measured: Mapping[Place, Mapping[str, np.ndarray]],
    rated: GroupedSegments,
) -> tuple[int, np.ndarray | float]:
    """Return the segments of a cell, and its number for every setting, averaged over groups, then sets; shape
    (settings,), NaN without data.
    """
    sets, weights = [], []
    for name, groups in rated.items():
        sizes = {group: len(own.ratings) for group, own in groups.items() if cell.unit in {AVERAGE, name, group}}
        if sizes:
            numbers = [measured[name, group][cell.statistic] for group in sizes]
            by_size = list(sizes.values()) if experiment.weights.get("groups") == "size" else None
            sets.append(np.average(numbers, axis=0, weights=by_size))
            weights.append(sum(sizes.values()))
    if not sets:
        return 0, np.nan
    return sum(weights), np.average(sets, axis=0, weights=weights if experiment.weights.get("sets") == "size" else None)


def read_sources(experiment: Experiment, folder: Path | None, *, hub: bool = False) -> dict[str, RatedSegments]:
    """Read the sets of an experiment, each under one of its ``paths`` in the folder, or else from the Hub."""
    if folder and not folder.is_dir():
        places = ", ".join(source["paths"][0] for source in experiment.data.values())
        raise FileError(f"{folder} is not a folder; expected a folder that holds {places}.")
    result = {
        name: next((folder / place for place in source["paths"] if (folder / place).exists()), None) if folder else None
        for name, source in experiment.data.items()
    }
    needed = [name for name in experiment.data if name not in experiment.optional]
    lacking = [experiment.data[name]["paths"][0] for name in needed if not result[name]]
    if lacking:
        raise FileError(f"expected {', '.join(dict.fromkeys(lacking))} in {folder}; not there.")
    read, missing = {}, []
    for name, source in experiment.data.items():
        try:
            read[name] = _read(source, result[name], hub=hub)
        except FileError as error:
            if result[name]:
                raise
            places = f" (no {' or '.join(source['paths'])} in {folder})" if folder else ""
            missing.append(f"{name}{places}{f' ({error})' if hub else ''}")
    if not read:
        raise FileError(f"{experiment.name}: no data set can be read: {'; '.join(missing)}.")
    for name in missing:
        warn(f"left out: {name}.")
    return read


def _read(source: Mapping[str, object], path: Path | None, *, hub: bool) -> RatedSegments:
    """Read a set, from the Hub where there is no path; a reference that a row has twice is read once."""
    if path is None:
        if not hub:
            raise FileError("not there")
        return read_hub(str(source["hub"]))
    rated = FORMATS[str(source["format"])](path, **source.get("keys", {}))  # type: ignore[arg-type]
    if source.get("by_length"):
        rated = select(rated, np.argsort(pair_lengths(rated), kind="stable"))
    references = [own if isinstance(own, str) else list(dict.fromkeys(own)) for own in rated.references]
    return rated._replace(references=references)  # the best reference, which counts, is the same


def pair_lengths(rated: RatedSegments) -> np.ndarray:
    """Return the mean number of characters of a pair's two texts; shape (segments,)."""
    pairs = zip(rated.predictions, rated.references, strict=True)
    return np.array([(len(text) + len(other)) / 2 for text, other in pairs])


def split_groups(experiment: Experiment, sources: Mapping[str, RatedSegments]) -> GroupedSegments:
    """Select the groups of every set that the experiment names, in ``groups`` or as columns."""
    units = dict.fromkeys(cell.unit for cell in experiment.cells)
    columns = tuple(unit for unit in units if unit not in {AVERAGE, *experiment.data})
    return {name: _groups_of(rated, experiment.groups.get(name, columns), name) for name, rated in sources.items()}


def _groups_of(rated: RatedSegments, wanted: tuple[str, ...], name: str) -> dict[str, RatedSegments]:
    if missing := [group for group in wanted if group not in rated.group]:
        raise FileError(f"{name} has no row of {', '.join(missing)}: the table's groups are {', '.join(wanted)}.")
    groups = np.array(rated.group)
    kept = [group for group in dict.fromkeys(rated.group) if not wanted or group in wanted]
    chosen = {group: np.flatnonzero(groups == group) for group in kept}
    if others := sorted(set(rated.group) - set(chosen)):
        rows = len(groups) - sum(map(len, chosen.values()))
        warn(f"{name}: groups that the table does not have, left out: {', '.join(others)} ({rows} rows).")
    return {group: select(rated, rows) for group, rows in chosen.items()}


Measure = Callable[[np.ndarray, np.ndarray], float]
"""From scores and ratings, shape (N,) each, to a number; raises InputError where it is undefined."""


def roc_curve(scores: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return false and true positive rates from (0, 0) to (1, 1), shape (points,) each; tied scores are one point."""
    positives = int(positive.sum())
    if not 0 < positives < len(positive):
        raise InputError(f"a ROC curve needs both classes; {positives} of {len(positive)} are positive.")
    if not np.isfinite(scores).all():
        raise InputError("a ROC curve needs finite scores.")
    order = np.argsort(-scores, kind="stable")
    last_of_ties = np.flatnonzero(np.r_[np.diff(scores[order]) != 0, True])
    true = np.cumsum(positive[order])[last_of_ties]
    return np.r_[0, (last_of_ties + 1 - true) / (len(positive) - positives)], np.r_[0, true / positives]


def roc_area(scores: np.ndarray, positive: np.ndarray) -> float:
    """Return the area under the curve: how often a positive scores higher than a negative, ties counting half."""
    false, true = roc_curve(scores, positive)
    return float(trapezoid(true, false))


def _of_half(scores: np.ndarray, ratings: np.ndarray, *, upper: bool) -> float:
    """Correlate within one half of the ratings; segments of one rating are in the data's order."""
    order, half = np.argsort(ratings, kind="stable"), len(ratings) // 2
    rows = order[half:] if upper else order[:half]
    return correlate("pearson", scores[rows], ratings[rows])


def _outer_quarters(scores: np.ndarray, ratings: np.ndarray) -> float:
    """Return the area under the ROC curve of the lowest against the highest quarter of the ratings."""
    order, quarter = np.argsort(ratings, kind="stable"), len(ratings) // 4
    rows = np.r_[order[:quarter], order[len(order) - quarter :]]
    return roc_area(scores[rows], np.arange(2 * quarter) >= quarter)


def _moment(scores: np.ndarray, ratings: np.ndarray, *, label: int, deviation: bool) -> float:
    """Return the mean or the sample standard deviation of the scores of a class."""
    own = scores[ratings == label]
    if len(own) < 2:
        raise InputError(f"2 or more segments of class {label} are needed, there are {len(own)}")
    return float(own.std(ddof=1) if deviation else own.mean())


MEASURES: dict[str, Measure] = {
    **{name: partial(correlate, name) for name in ("pearson", "spearman", "kendall")},
    "pearson-lower": partial(_of_half, upper=False),
    "pearson-upper": partial(_of_half, upper=True),
    "auc": lambda scores, ratings: roc_area(scores, ratings == 1),
    "auc-quarters": _outer_quarters,
    **{f"mean-{label}": partial(_moment, label=label, deviation=False) for label in (0, 1)},
    **{f"deviation-{label}": partial(_moment, label=label, deviation=True) for label in (0, 1)},
}
"""Measures by their names in experiments."""


def measure(samples: Sequence[tuple[np.ndarray, np.ndarray]], statistics: Sequence[str], place: str) -> np.ndarray:
    """Measure rows' scores and ratings, shape (N,) each, at a `place` named in warnings; shape (rows, statistics)."""
    result = np.full((len(samples), len(statistics)), np.nan)
    reasons: dict[int, str] = {}
    for i, sample in enumerate(samples):
        for j, statistic in enumerate(statistics):
            try:
                result[i, j] = MEASURES[statistic](*sample)
            except InputError as error:
                reasons.setdefault(i, str(error))
    if reasons:
        first = next(iter(reasons.values()))
        warn(f"{place}: not every number is defined for {len(reasons)} of {len(samples)} rows; {first}")
    return result
