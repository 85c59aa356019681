"""Computes experiments on rated data, as tables beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from twmd_registry.engine.scorer import Scorer, make_scorer, score_all
from twmd_registry.errors import ModelError, SpecError, warn
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.diagnosis import Diagnosis, diagnose
from twmd_registry.metaeval.overlap import warn_about_overlap
from twmd_registry.metaeval.side_by_side import score_lexically
from twmd_registry.papers.experiment import AVERAGE, EVERY, Experiment, ExperimentCell
from twmd_registry.papers.measures import measure
from twmd_registry.papers.reproduction import Place, Reproduction
from twmd_registry.papers.row_metrics import Metric, Setting, make_settings, own_layers, read_depth
from twmd_registry.papers.sources import GroupedSegments, pair_lengths, read_sources, split_groups
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import EMBEDDED_MODEL
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import MetricSpec

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
    folder of rated data does not hold is read from the Hugging Face Hub. Warns of rows, groups and sets that are left
    out, of undefined numbers, and of metrics that were trained or tuned on the data.
    """
    options = options or RunOptions()
    for experiment in experiments:
        _refuse(experiment, model, layer)
    rated = split_groups(experiments[0], read_sources(experiments[0], folder, hub=hub))
    with ExitStack() as stack:
        depth = read_depth(model, options, stack) if any(map(_needs_depth, experiments)) else 1
        settings = {}
        for experiment in experiments:
            own = own_layers(experiment, model, layer, options, stack)
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
    """Measure how alike a model's words are in every layer, on the different references of the experiment's set.

    Only the experiment's ``centerings`` are kept. Raises SpecError where a layer was asked for, and what
    `read_sources` and `diagnose` raise.
    """
    _refuse(experiment, model, layer)
    (rated,) = read_sources(experiment, folder).values()
    result = diagnose(model, list(dict.fromkeys(rated.references)), options, progress=progress)
    shown = [k for k, centering in enumerate(result.centerings) if centering in experiment.centerings]
    return replace(result, centerings=tuple(result.centerings[k] for k in shown), estimates=result.estimates[shown])


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
            scorer = stack.enter_context(make_scorer(metric, options))
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
    cells = [_cell(cell, experiment, measured, rated, len(settings)) for cell in experiment.cells]
    return Reproduction(
        experiment=experiment,
        near=near,
        settings=tuple(settings),
        specs=tuple(signed[setting.metric][0] for setting in settings),
        signatures=tuple(signed[setting.metric][1] for setting in settings),
        segments={cell.column: _size(cell, rated) for cell in experiment.cells},
        values=np.array(cells).T,
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


def _cell(
    cell: ExperimentCell,
    experiment: Experiment,
    measured: Mapping[Place, Mapping[str, np.ndarray]],
    rated: GroupedSegments,
    settings: int,
) -> np.ndarray:
    """Return a cell of every setting, averaged over groups, then sets; NaN for a missing set; shape (settings,)."""
    sets, weights = [], []
    for name, groups in _places(cell, rated).items():
        sizes = [len(segments.ratings) for segments in groups.values()]
        numbers = [measured[name, group][cell.statistic] for group in groups]
        by_size = experiment.weights.get("groups") == "size"
        sets.append(np.average(numbers, axis=0, weights=sizes if by_size else None))
        weights.append(sum(sizes))
    if not sets:
        return np.full(settings, np.nan)
    return np.average(sets, axis=0, weights=weights if experiment.weights.get("sets") == "size" else None)


def _places(cell: ExperimentCell, rated: GroupedSegments) -> GroupedSegments:
    """Return the groups that a cell is measured on."""
    chosen = {}
    for name, groups in rated.items():
        chosen[name] = {group: own for group, own in groups.items() if cell.unit in {AVERAGE, name, group}}
    return {name: groups for name, groups in chosen.items() if groups}


def _size(cell: ExperimentCell, rated: GroupedSegments) -> int:
    return sum(len(segments.ratings) for groups in _places(cell, rated).values() for segments in groups.values())
