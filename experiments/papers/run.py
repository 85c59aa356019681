"""Compute experiments on rated data, next to the paper's tables, and draw its figures as PNG, SVG and CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.integrate import trapezoid

from experiments.papers import pictures
from experiments.papers.diagnosis import Diagnosis, diagnose
from experiments.papers.experiment import (
    AVERAGE,
    EVERY,
    OWN,
    Experiment,
    ExperimentCell,
    Setting,
    TableMetric,
    make_settings,
)
from experiments.papers.reproduction import GroupedSegments, Place, Reproduction, line_name
from twmd_registry.align.sinkhorn import sinkhorn_plan
from twmd_registry.engine.scorer import Scorer, score_with
from twmd_registry.errors import FileError, InputError, ModelError, SpecError
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.judgments.sets import FORMATS, read_hub
from twmd_registry.messages import warn
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.metaeval.overlap import warn_about_overlap
from twmd_registry.metaeval.side_by_side import score_lexically
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.names import EMBEDDED_MODEL, MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec
from twmd_registry.report import figures
from twmd_registry.tensors import PaddedTokens

Scores = Mapping[TableMetric, Mapping[Place, np.ndarray]]
"""By metric and group, one score per segment."""
Signed = dict[TableMetric, tuple[MetricSpec | None, str]]
"""By metric, its specification as applied (None for a SacreBLEU metric) and its signature."""
VARIED = ("metric", "centering", "layer", "temperature", "iterations")
"""Keys of the specification in a figure's data."""
NamedFile: TypeAlias = tuple[str, bytes]


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
    """Recompute experiments on the same data with any model, encoding each text once for all rows.

    `layer` defaults to the paper's for its models, otherwise to that of the model's preset or rule. With `hub`, data
    missing from the folder are read from the Hugging Face Hub.
    """
    options = options or RunOptions()
    for experiment in experiments:
        _refuse(experiment, model, layer)
    rated = split_groups(experiments[0], read_sources(experiments[0], folder, hub=hub))
    with ExitStack() as stack:
        depth = 1
        if any(map(_needs_depth, experiments)):  # 0 for word vectors
            spec = make_spec(MetricName.MOVERSCORE, "wmd", model=model, layer="last:1")
            depth = stack.enter_context(Scorer(spec, options)).spec.layers[-1]
        settings = {}
        for experiment in experiments:
            layers = _own_layers(experiment, model, layer, options, stack)
            settings[experiment.name] = make_settings(experiment, model, own=layers, requested_layer=layer, depth=depth)
        flat = [setting for settings_of_one in settings.values() for setting in settings_of_one]
        scorers = _open(flat, options, stack)
        labels = {setting.metric: setting.row for setting in reversed(flat) if setting.metric in scorers}
        for name, groups in rated.items() if not any(experiment.vary for experiment in experiments) else ():
            references = [texts for segments in groups.values() for texts in segments.references]
            warn_about_overlap(labels.values(), [scorers[metric] for metric in labels], references, name)
        signed: Signed = {metric: (scorer.spec, scorer.signature) for metric, scorer in scorers.items()}
        scores = _score(flat, scorers, rated, progress)
        first = next(segments for groups in rated.values() for segments in groups.values())
        lexical = [metric for metric in scores if isinstance(metric, str)]
        signed |= {metric: (None, score_lexically(metric, first)[1]) for metric in lexical}
        tabulate = partial(_tabulate, signed=signed, scores=scores, rated=rated)
        return [tabulate(e, settings[e.name], near=e.nearest(model, depth)) for e in experiments]


def diagnose_words(
    experiment: Experiment,
    folder: Path,
    options: RunOptions,
    *,
    model: str = EMBEDDED_MODEL,
    layer: int | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Diagnose a model's words on the distinct references of the experiment's set, under its ``centerings``."""
    _refuse(experiment, model, layer)
    (rated,) = read_sources(experiment, folder).values()
    result = diagnose(model, list(dict.fromkeys(rated.references)), options, progress=progress)
    shown = [k for k, centering in enumerate(result.centerings) if centering in experiment.centerings]
    return replace(result, centerings=tuple(result.centerings[k] for k in shown), estimates=result.estimates[shown])


def _own_layers(
    experiment: Experiment, model: str, layer: int | None, options: RunOptions, stack: ExitStack
) -> list[int]:
    """Return the layers for rows with layer ``own``: the requested ones, otherwise the paper's, otherwise the preset's
    or rule's.
    """
    rows = (experiment.keys | keys for keys in experiment.rows.values())
    if "layer" in experiment.vary or all(row.get("layer") != OWN for row in rows):
        return []
    if layer is None and (printed := {int(row.layer): 0 for row in experiment.printed if row.model == model}):
        return list(printed)
    read = stack.enter_context(Scorer(make_spec(MetricName.TWMD, model=model, layer=layer), options)).spec.layer
    if read is None or len(read.numbers) > 1:
        raise SpecError(
            f"{experiment.name} reads a single layer, and the preset of {model} reads {read}: add --set layer=K."
        )
    return [read.numbers[0] + offset for offset in experiment.offsets]


def _refuse(experiment: Experiment, model: str, layer: int | None) -> None:
    if experiment.fine_tuned and model == EMBEDDED_MODEL:
        what = "needs a model that was fine-tuned on WMT15-16: use --set model=MODEL"
        raise SpecError(f"{experiment.name} {what}.")
    if layer is not None and not experiment.reads_one_layer:
        raise SpecError(f"{experiment.name} does not read a single layer: leave out layer={layer}.")


def _needs_depth(experiment: Experiment) -> bool:
    layers = [row.get("layer") for row in experiment.rows.values()]
    share = any(isinstance(layer, float) for layer in layers)
    return share or EVERY in experiment.vary.values() or "static" in experiment.encoders


def _open(settings: Iterable[Setting], options: RunOptions, stack: ExitStack) -> dict[TableMetric, Scorer]:
    """Create a scorer for each of our metrics, and load its model, so errors occur before scoring."""
    scorers: dict[TableMetric, Scorer] = {}
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


def _score(
    settings: Sequence[Setting],
    scorers: Mapping[TableMetric, Scorer],
    rated: GroupedSegments,
    progress: Progress | None,
) -> Scores:
    """Score every group with every metric."""
    metrics = (metric for setting in settings for metric in (setting.metric, setting.against))
    lexical = dict.fromkeys(metric for metric in metrics if isinstance(metric, str))
    opened = list(scorers.values())
    result: dict[TableMetric, dict[Place, np.ndarray]] = {metric: {} for metric in [*lexical, *scorers]}
    places = {(name, group): segments for name, groups in rated.items() for group, segments in groups.items()}
    expect(progress, sum(len(segments.ratings) for segments in places.values()))
    for place, segments in places.items():
        scored = score_with(opened, segments.predictions, segments.references, progress=progress) if opened else []
        for metric, own_scores in zip(scorers, scored, strict=True):
            result[metric][place] = np.array(own_scores.scores)
        for metric in lexical:
            result[metric][place] = np.array(score_lexically(metric, segments)[0])
    return result


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
            requested = [statistic for _, unit, statistic in experiment.cells if unit in {AVERAGE, name, group}]
            statistics = list(dict.fromkeys(requested))
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
        segments={column: size for (column, *_), (size, _) in zip(experiment.cells, averages, strict=True)},
        values=np.array([np.broadcast_to(average, len(settings)) for _, average in averages]).T,
        rated=rated,
        scores={setting.row: scores[setting.metric] for setting in settings},
    )


def _sample(setting: Setting, scores: Scores, place: Place, segments: RatedSegments) -> tuple[np.ndarray, np.ndarray]:
    """Return a setting's scores and the values to compare them with."""
    compared = scores[setting.metric][place]
    other = segments.ratings if setting.against is None else scores[setting.against][place]
    if not setting.half:
        return compared, other
    lengths = pair_lengths(segments)
    longer = lengths >= np.median(lengths)
    rows = longer if setting.half == "longer" else ~longer
    return compared[rows], other[rows]


def _average(
    cell: ExperimentCell,
    experiment: Experiment,
    measured: Mapping[Place, Mapping[str, np.ndarray]],
    rated: GroupedSegments,
) -> tuple[int, np.ndarray | float]:
    """Return a cell's number of segments, and its value by setting, averaged over groups, then sets; (settings,)."""
    sets, weights, (_, unit, statistic) = [], [], cell
    for name, groups in rated.items():
        sizes = {group: len(segments.ratings) for group, segments in groups.items() if unit in {AVERAGE, name, group}}
        if sizes:
            numbers = [measured[name, group][statistic] for group in sizes]
            by_size = list(sizes.values()) if experiment.weights.get("groups") == "size" else None
            sets.append(np.average(numbers, axis=0, weights=by_size))
            weights.append(sum(sizes.values()))
    if not sets:
        return 0, np.nan
    return sum(weights), np.average(sets, axis=0, weights=weights if experiment.weights.get("sets") == "size" else None)


def read_sources(experiment: Experiment, folder: Path | None, *, hub: bool = False) -> dict[str, RatedSegments]:
    """Read an experiment's sets, each from one of its ``paths`` in the folder, or else from the Hub."""
    result = {
        name: next((folder / place for place in source["paths"] if (folder / place).exists()), None) if folder else None
        for name, source in experiment.data.items()
    }
    needed = [name for name in experiment.data if name not in experiment.optional]
    if lacking := [experiment.data[name]["paths"][0] for name in needed if not result[name]]:
        raise FileError(f"expected {', '.join(dict.fromkeys(lacking))} in {folder}; not found.")
    read = {}
    for name, source in experiment.data.items():
        path = result[name]
        if path or hub:
            try:
                read[name] = _read(source, path) if path else read_hub(str(source["hub"]))
            except FileError as error:
                if path:
                    raise
                warn(f"left out: {name} ({error}).")
        else:
            warn(f"left out: {name} (no {' or '.join(source['paths'])} in {folder}).")
    if not read:
        raise FileError(f"{experiment.name}: no data set can be read.")
    return read


def _read(source: Mapping[str, object], path: Path) -> RatedSegments:
    """Read a set; a row's repeated reference is read once."""
    rated = FORMATS[str(source["format"])](path, **source.get("keys", {}))  # type: ignore[arg-type]
    if source.get("by_length"):
        rated = select(rated, np.argsort(pair_lengths(rated), kind="stable"))
    references = [texts if isinstance(texts, str) else list(dict.fromkeys(texts)) for texts in rated.references]
    return rated._replace(references=references)  # does not change the best reference, which counts


def pair_lengths(rated: RatedSegments) -> np.ndarray:
    """Return the mean length of a pair's two texts in characters; shape (segments,)."""
    pairs = zip(rated.predictions, rated.references, strict=True)
    return np.array([(len(text) + len(other)) / 2 for text, other in pairs])


def split_groups(experiment: Experiment, sources: Mapping[str, RatedSegments]) -> GroupedSegments:
    """Select the groups of every set that the experiment names, in ``groups`` or as columns."""
    units, result = dict.fromkeys(unit for _, unit, _ in experiment.cells), GroupedSegments()
    columns = tuple(unit for unit in units if unit not in {AVERAGE, *experiment.data})
    for name, rated in sources.items():
        selected, groups = experiment.groups.get(name, columns), np.array(rated.group)
        if missing := [group for group in selected if group not in rated.group]:
            raise FileError(f"{name} has no row of {', '.join(missing)}: the table's groups are {', '.join(selected)}.")
        kept = [group for group in dict.fromkeys(rated.group) if not selected or group in selected]
        result[name] = {group: select(rated, np.flatnonzero(groups == group)) for group in kept}
    return result


Measure = Callable[[np.ndarray, np.ndarray], float]
"""Maps scores and ratings, shape (N,) each, to a number; raises InputError if it is undefined."""


def roc_curve(scores: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return false and true positive rates from (0, 0) to (1, 1), shape (points,) each; tied scores are one point."""
    positives = int(positive.sum())
    if not 0 < positives < len(positive):
        raise InputError(f"a ROC curve needs both classes; {positives} of {len(positive)} are positive.")
    order = np.argsort(-scores, kind="stable")
    last_of_ties = np.flatnonzero(np.r_[np.diff(scores[order]) != 0, True])
    true = np.cumsum(positive[order])[last_of_ties]
    return np.r_[0, (last_of_ties + 1 - true) / (len(positive) - positives)], np.r_[0, true / positives]


def roc_area(scores: np.ndarray, positive: np.ndarray) -> float:
    """Return the area under the curve: how often a positive scores higher than a negative; ties count half."""
    false, true = roc_curve(scores, positive)
    return float(trapezoid(true, false))


def _of_half(scores: np.ndarray, ratings: np.ndarray, *, upper: bool) -> float:
    """Correlate within one half of the ratings; equal ratings stay in the data's order."""
    order, half = np.argsort(ratings, kind="stable"), len(ratings) // 2
    rows = order[half:] if upper else order[:half]
    return correlate("pearson", scores[rows], ratings[rows])


def _outer_quarters(scores: np.ndarray, ratings: np.ndarray) -> float:
    """Return the area under the ROC curve for the lowest against the highest quarter of the ratings."""
    order, quarter = np.argsort(ratings, kind="stable"), len(ratings) // 4
    rows = np.r_[order[:quarter], order[len(order) - quarter :]]
    return roc_area(scores[rows], np.arange(2 * quarter) >= quarter)


def _moment(scores: np.ndarray, ratings: np.ndarray, *, label: int, deviation: bool) -> float:
    """Return the mean or sample standard deviation of a class's scores."""
    chosen = scores[ratings == label]
    if len(chosen) < 2:
        raise InputError(f"expected at least 2 segments of class {label}, found {len(chosen)}")
    return float(chosen.std(ddof=1) if deviation else chosen.mean())


MEASURES: dict[str, Measure] = {
    **{name: partial(correlate, name) for name in ("pearson", "spearman", "kendall")},
    "pearson-lower": partial(_of_half, upper=False),
    "pearson-upper": partial(_of_half, upper=True),
    "auc": lambda scores, ratings: roc_area(scores, ratings == 1),
    "auc-quarters": _outer_quarters,
    **{f"mean-{label}": partial(_moment, label=label, deviation=False) for label in (0, 1)},
    **{f"deviation-{label}": partial(_moment, label=label, deviation=True) for label in (0, 1)},
}


def measure(samples: Sequence[tuple[np.ndarray, np.ndarray]], statistics: Sequence[str], place: str) -> np.ndarray:
    """Measure rows' scores and ratings, shape (N,) each; return shape (rows, statistics). Warnings name the `place`."""
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


def draw_pictures(result: Reproduction, options: RunOptions) -> Iterator[NamedFile]:
    """Yield an experiment's figure; nothing for a table."""
    if result.experiment.picture:
        yield from _PICTURES[result.experiment.picture["kind"]](result, options)


def _files(
    stem: str, header: Iterable[str], rows: Iterable[Iterable[object]], draw: Callable[[str], bytes]
) -> Iterator[NamedFile]:
    yield f"{stem}.csv", figures.as_csv(header, rows)
    for suffix in figures.SUFFIXES:
        yield f"{stem}{suffix}", draw(suffix)


def _draw_curves(result: Reproduction, options: RunOptions) -> Iterator[NamedFile]:
    """Draw numbers against the values of the last axis, and the marginal errors of ``plans``."""
    experiment, picture = result.experiment, result.experiment.picture
    statistic, x = experiment.cells[0][2], "x" * picture.get("logarithmic", False)
    rows = [
        (column, *((spec.values() | {"metric": spec.metric}).get(key) for key in VARIED), value, signature)
        for (column, *_), values in zip(experiment.cells, result.values.T.tolist(), strict=True)
        if result.segments[column]
        for spec, value, signature in zip(result.specs, values, result.signatures, strict=True)
        if spec is not None
    ]
    parts: dict[str, tuple[Any, ...]] = {
        "": (("data", *VARIED, statistic, "signature"), rows, result.curves(), statistic, x)
    }
    if experiment.plans:
        errors = marginal_errors(result, options)
        group, pairs = first_pairs(result)
        points = [(name, *point) for name, line in errors.items() for point in np.array(line).T.tolist()]
        panels = {f"{group}, {len(pairs.ratings)} pairs": errors}
        right = ("line", "iterations", "marginal_error"), points, panels, "marginal error", x + "y"
        parts = {"-left": parts[""], "-right": right}
    for part, (header, lines, panels, y, logarithmic) in parts.items():
        title = f"{result.model}\n{experiment.about}"
        draw = partial(pictures.curves, panels, (picture["x"], y), title, logarithmic=logarithmic)
        yield from _files(f"{experiment.name}{part}", header, lines, draw)


def _draw_scatter(result: Reproduction, _options: RunOptions) -> Iterator[NamedFile]:
    """Draw scores against ratings of one group, with a panel per row."""
    group = result.experiment.cells[0][1]
    (place, ratings), *_ = [
        ((name, group), groups[group].ratings) for name, groups in result.rated.items() if group in groups
    ]
    scores, title = {row: places[place] for row, places in result.scores.items()}, f"{group}, {result.model}"
    draw = partial(figures.scatter, ratings, scores, title, label="human judgement (bad to good)", line=False)
    rows = np.array([ratings, *scores.values()]).T.tolist()
    yield from _files(result.experiment.name, ["rating", *scores], rows, draw)


def _draw_matrix(result: Reproduction, _options: RunOptions) -> Iterator[NamedFile]:
    """Draw pairwise correlations of measures, with a matrix per column; a row's name has two measures."""
    pairs = [tuple(setting.row.split(" ~ ")) for setting in result.settings]
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    panels = {}
    for c, (column, *_) in enumerate(result.experiment.cells):
        matrix = np.diag(np.full(len(names), 100.0))
        for (first, second), value in zip(pairs, result.values[:, c], strict=True):
            i, j = names.index(first), names.index(second)
            matrix[i, j] = matrix[j, i] = value
        panels[column] = matrix
    cells = [(column, i, j) for column in panels for i in range(len(names)) for j in range(i + 1)]
    rows = [(column, names[i], names[j], panels[column][i, j]) for column, i, j in cells]
    draw = partial(figures.matrices, panels, names, result.model)
    yield from _files(result.experiment.name, ("language pair", "row", "column", "pearson"), rows, draw)


_PICTURES: dict[str, Callable[[Reproduction, RunOptions], Iterator[NamedFile]]] = {
    "curves": _draw_curves,
    "scatter": _draw_scatter,
    "matrix": _draw_matrix,
}


def draw_data_sets(result: Mapping[str, Reproduction]) -> Iterator[NamedFile]:
    """Yield the figures of every data set of the STSScore paper: scores against ratings or classes, and ROC curves."""
    scores = {**result["table1"].scores, **result["table3"].scores}
    classes = result["auc"].rated
    for name, groups in result["table1"].rated.items():
        (group, rated), *_ = groups.items()
        by_measure, stem = {measure: places[name, group] for measure, places in scores.items()}, name.lower()
        draw = pictures.densities if name in classes else figures.scatter
        rows = np.array([rated.ratings, *by_measure.values()]).T.tolist()
        yield from _files(stem, ["rating", *by_measure], rows, partial(draw, rated.ratings, by_measure, name))
        if name in classes and 0 < rated.ratings.sum() < len(rated.ratings):
            curves = {measure: roc_curve(values, rated.ratings == 1) for measure, values in by_measure.items()}
            for suffix in figures.SUFFIXES:
                yield f"{stem}-roc{suffix}", pictures.roc(curves, name, suffix)


def first_pairs(result: Reproduction) -> tuple[str, RatedSegments]:
    """Return the first group's name, and its first ``plans`` pairs, which keep their batches."""
    group, segments = next(iter(next(iter(result.rated.values())).items()))
    return group, select(segments, np.arange(min(result.experiment.plans, len(segments.ratings))))


def marginal_errors(result: Reproduction, options: RunOptions) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Measure plans' ``sum_j |sum_i pi_ij - 1/n|`` after each number of Sinkhorn sweeps, averaged over pairs.

    This is the TWMD paper's Figure 4, right. Returns, by temperature as a line's name, the numbers of sweeps and the
    errors.
    """
    _, rated = first_pairs(result)
    first = result.settings[0].metric
    if isinstance(first, str):
        raise InputError(f"{first} has no transport plan.")
    with Scorer(first, options) as scorer:
        scores = scorer.score(rated.predictions, rated.references)
        similarities = [scores.explain(i).similarities for i in range(len(rated.ratings))]
    aligned = [matrix for matrix in similarities if matrix.size]
    if not aligned:
        raise InputError("no pair has tokens on both sides: no plan to measure.")
    temperatures, sweeps = (result.experiment.vary[key] for key in ("temperature", "iterations"))
    lines = {}
    for temperature in temperatures:
        settings = [first.replace(temperature=temperature, iterations=number) for number in sweeps]
        errors = [np.mean([_marginal_error(matrix, setting) for matrix in aligned]) for setting in settings]
        lines[line_name(first, temperature)] = np.array(sweeps, dtype=np.float64), np.array(errors)
    return lines


def _marginal_error(similarities: np.ndarray, spec: MetricSpec) -> float:
    """Return the distance of the plan's column sums from the marginal, in float64."""
    s = torch.from_numpy(similarities).to(torch.float64)[None]  # (1, N, M)
    # Weights of 1 have no effect except to keep the shares in float64.
    x, y = (PaddedTokens(torch.ones(1, n, dtype=torch.bool), torch.ones(1, n).double()) for n in s.shape[1:])
    columns = sinkhorn_plan(s, x, y, spec).sum(1)  # (1, M)
    return float((columns - 1 / s.shape[2]).abs().sum())
