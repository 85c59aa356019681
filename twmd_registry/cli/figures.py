"""``twmd reproduce twmd-figureN`` and ``twmd-appendix-b``: what the TWMD paper draws, drawn for any model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.cli.declare import Arguments
from twmd_registry.cli.diagnose import write_diagnosis
from twmd_registry.cli.files import write_file
from twmd_registry.cli.requested import options_of
from twmd_registry.cli.terminal import progress_bar
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, SpecError, warn
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.metaeval.diagnose import Diagnosis, diagnose
from twmd_registry.metaeval.reproduce.layout import short_name
from twmd_registry.metaeval.reproduce.protocols import YEARS, by_length, read_data, read_years
from twmd_registry.metaeval.reproduce.readings import (
    FigureStatement,
    centering_helps,
    compare_centerings,
    cool_plans_converge_slower,
    high_baseline,
    one_sweep_is_best,
    robust_against_temperature,
)
from twmd_registry.metaeval.reproduce.rows import METRICS, TABLES, PaperTable
from twmd_registry.metaeval.reproduce.run import layer_of, twmd_of
from twmd_registry.metaeval.reproduce.temperatures import TEMPERATURES, TUNING_YEARS, choose_temperatures, sentence_of, table_of
from twmd_registry.metaeval.sweeps import (
    SweepLine,
    SweepPoint,
    Weighting,
    iteration_settings,
    layer_settings,
    layers_of,
    lines,
    marginal_errors,
    measure,
    temperature_settings,
)
from twmd_registry.metaeval.table import FORMATS, as_text
from twmd_registry.registry.names import Centering
from twmd_registry.registry.options import RunOptions
from twmd_registry.report.curves import PlotAxis, PlotCurve, curves
from twmd_registry.report.figures import SUFFIXES, as_csv, require_matplotlib

STS, WMT = TABLES["twmd-table1"], TABLES["twmd-table2"]
"""Whose side, special tokens and temperatures the figures have."""
WMT_YEARS = (15, 16, 17, 18)
"""Of Figure 3, as far as they are here."""
CORPUS_YEAR = 16
"""Of WMT: its references are the corpus of Figures 1 and 2."""
SWEPT_TEMPERATURES, SWEEPS = (0.01, 0.02, 0.05, 0.1), (1, 2, 5, 10, 20)
"""Of Figure 4, which has four temperatures; the text names only the first, and one and ten sweeps."""
PLANS = 32
"""Pairs whose plans are looked at: one centering batch."""
PEARSON = PlotAxis("Pearson r")
KEYS = ("metric", "centering", "layer", "temperature", "iterations")
"""What differs between the settings of a figure."""


class FigureData(NamedTuple):
    """A figure and its data.

    Attributes:
        stem: Of the files' names.
        title: Of the figure.
        x: The axis of what is varied.
        y: The axis of what is measured.
        panels: By name, the lines of a panel.
        data: As CSV.
    """

    stem: str
    title: str
    x: PlotAxis
    y: PlotAxis
    panels: Mapping[str, Sequence[SweepLine]]
    data: bytes


class ModelLayer(NamedTuple):
    """A model at a layer.

    Attributes:
        name: Its name and content, and the layer.
        title: The same for a figure, which has less room.
        layer: The layer.
    """

    name: str
    title: str
    layer: int


def figure1(arguments: Arguments) -> int:
    """Draw how alike words are in every layer without centering."""
    found = _diagnose(arguments)
    plain = found._replace(
        rows=tuple(row for row in found.rows if row.centering is Centering.NONE),
        verdicts=tuple(one for one in found.verdicts if one.centering is Centering.NONE),
    )
    write_diagnosis(plain._replace(model=short_name(found.model)), arguments.output, arguments.table)
    return _say(arguments, f"{found.model}, every layer", [high_baseline(plain)])


def figure2(arguments: Arguments) -> int:
    """Draw how alike words are in every layer under every centering."""
    found = _diagnose(arguments)
    write_diagnosis(found, arguments.output, arguments.table)
    return _say(arguments, f"{found.model}, every layer", [compare_centerings(found)])


def figure3(arguments: Arguments) -> int:
    """Draw Pearson's r against temperature, a panel per year of WMT that is here."""
    options = _begin(arguments)
    data = _available_years(arguments)
    model = _reader(arguments, options)
    specs = temperature_settings(arguments.model, model.layer, WMT, TEMPERATURES)
    with progress_bar(total=sum(len(rated.ratings) for rated in data.values())) as progress:
        found = {name: measure(specs, [rated], options, progress=progress) for name, rated in data.items()}
    panels = {name: lines(own, "temperature") for name, own in found.items()}
    axis = PlotAxis("temperature", logarithmic=True)
    _draw(FigureData(arguments.table, model.title, axis, PEARSON, panels, _measured_csv(found, options)), arguments.output)
    readings = [robust_against_temperature(own) for own in found.values()]
    print("\n".join(f"{name}: {_size(rated)}" for name, rated in data.items()))
    return _say(arguments, model.name, [one._replace(sentence=f"{name}: {one.sentence}") for name, one in zip(found, readings, strict=True)])


def figure4(arguments: Arguments) -> int:
    """Draw Pearson's r, and the plans' distance from their marginals, against the number of Sinkhorn sweeps."""
    options = _begin(arguments)
    (rated,) = read_data(WMT, arguments.data_dir)
    model = _reader(arguments, options)
    specs = iteration_settings(arguments.model, model.layer, WMT, SWEPT_TEMPERATURES, SWEEPS)
    with progress_bar(total=len(rated.ratings)) as progress:
        found = measure(specs, [rated], options, progress=progress)
    first = rated.group[0]
    batch = select(rated, np.flatnonzero(np.array(rated.group) == first)[:PLANS])
    errors = marginal_errors(specs[0], batch, SWEPT_TEMPERATURES, SWEEPS, options, pairs=PLANS)
    name, sweeps = _wmt(WMT.year), PlotAxis("Sinkhorn sweeps", logarithmic=True)
    left = {name: lines(found, "iterations")}
    _draw(FigureData(f"{arguments.table}-left", model.title, sweeps, PEARSON, left, _measured_csv({name: found}, options)), arguments.output)
    right, error = {f"{name} {first}, {len(batch.ratings)} pairs": errors}, PlotAxis("marginal error", logarithmic=True)
    _draw(FigureData(f"{arguments.table}-right", model.title, sweeps, error, right, _errors_csv(errors)), arguments.output)
    print(f"{name}: {_size(rated)}\nplans: the first {len(batch.ratings)} pairs of {first}")
    return _say(arguments, model.name, [one_sweep_is_best(found), cool_plans_converge_slower(errors)])


def figure5(arguments: Arguments) -> int:
    """Draw Pearson's r on STS12-16 in every layer, with batch centering and without."""
    return _by_layer(arguments, STS, f"{YEARS[0]} to {YEARS[-1]}", Weighting.SIZE)


def figure6(arguments: Arguments) -> int:
    """Draw Pearson's r on WMT17 in every layer, with batch centering and without."""
    return _by_layer(arguments, WMT, _wmt(WMT.year), Weighting.EQUAL)


def appendix_b(arguments: Arguments) -> int:
    """Print the temperatures that agree best with people on WMT15-16 beside the paper's, and write the table where that was asked for."""
    options = options_of(arguments)
    data = read_years(TUNING_YEARS, arguments.data_dir)
    model = _reader(arguments, options)
    with progress_bar() as progress:
        found = choose_temperatures(data, arguments.model, model.layer, options, progress)
    names = " and ".join(f"{_wmt(year)} ({_size(rated)})" for year, rated in zip(TUNING_YEARS, data, strict=True))
    table, sentence = table_of(found, f"{names}; {model.name}"), sentence_of(found)
    if arguments.output:
        for suffix, form in FORMATS.items():
            after = f"\n\n{sentence}" if suffix in {"txt", "md"} else ""
            write_file(arguments.output / f"{arguments.table}.{suffix}", f"{as_text(table, form)}{after}\n".encode())
        signatures = "".join(f"{one.row}\t{one.output}\t{Scorer(one.tried[one.best], options).signature}\n" for one in found)
        write_file(arguments.output / f"{arguments.table}-signatures.tsv", signatures.encode())
    print(f"{as_text(table, FORMATS['txt'])}\n\n{sentence}")
    return 0


FIGURES: dict[str, Callable[[Arguments], int]] = {
    "twmd-figure1": figure1,
    "twmd-figure2": figure2,
    "twmd-figure3": figure3,
    "twmd-figure4": figure4,
    "twmd-figure5": figure5,
    "twmd-figure6": figure6,
    "twmd-appendix-b": appendix_b,
}
"""What ``twmd reproduce`` computes beside tables of agreement."""


def _begin(arguments: Arguments) -> RunOptions:
    """Refuse at once what would fail after hours.

    Raises:
        SpecError: No folder to write to.
        MissingExtraError: matplotlib is not installed.
    """
    if not arguments.output:
        raise SpecError(f"{arguments.table} is drawn into a folder: give one by -o DIR.")
    require_matplotlib()
    return options_of(arguments)


def _begin_every_layer(arguments: Arguments) -> RunOptions:
    """The same for a figure over layers.

    Raises:
        SpecError: One layer was asked for.
    """
    if arguments.layer is not None:
        raise SpecError(f"{arguments.table} shows every layer: leave --layer {arguments.layer} out.")
    return _begin(arguments)


def _reader(arguments: Arguments, options: RunOptions) -> ModelLayer:
    with twmd_of(arguments.model, arguments.layer, options) as twmd:
        layer = layer_of(twmd)
        return ModelLayer(f"{twmd.spec.model}@{twmd.spec.fingerprint}, layer {layer}", f"{short_name(str(twmd.spec.model))}\nlayer {layer}", layer)


def _diagnose(arguments: Arguments) -> Diagnosis:
    options = _begin_every_layer(arguments)
    (rated,) = read_years([CORPUS_YEAR], arguments.data_dir)
    texts = list(dict.fromkeys(rated.references))
    with progress_bar("texts") as progress:
        found = diagnose(arguments.model, texts, options, progress=progress)
    print(f"corpus: the {len(texts)} different references of {_wmt(CORPUS_YEAR)}, {found.words} words")
    return found


def _by_layer(arguments: Arguments, table: PaperTable, name: str, weighting: Weighting) -> int:
    options = _begin_every_layer(arguments)
    data = read_data(table, arguments.data_dir)
    layers = layers_of(arguments.model, options)
    specs = layer_settings(arguments.model, layers, table)
    in_order = data if table.year else [by_length(rated) for rated in data]
    with progress_bar(total=sum(len(rated.ratings) for rated in data)) as progress:
        found = measure(specs, in_order, options, weighting=weighting, progress=progress)
    with Scorer(specs[0], options) as scorer:
        model = f"{scorer.spec.model}@{scorer.spec.fingerprint}"
    panels = {str(metric): lines([one for one in found if one.spec.metric is metric], "layer") for metric in METRICS.values()}
    title = f"{short_name(model)}, {name}"
    _draw(FigureData(arguments.table, title, PlotAxis("layer"), PEARSON, panels, _measured_csv({name: found}, options)), arguments.output)
    print(f"{name}: {'; '.join(map(_size, data))}")
    return _say(arguments, f"{model}, layers {layers[0]} to {layers[-1]}", [centering_helps(found)])


def _available_years(arguments: Arguments) -> dict[str, RatedSegments]:
    """The years of WMT that the folder holds.

    Raises:
        FileError: It holds none, or one is damaged.
    """
    files = {year: f"wmt/{_wmt(year)}.jsonl" for year in WMT_YEARS}
    here = [year for year, name in files.items() if (arguments.data_dir / name).exists()]
    missing = ", ".join(files[year] for year in WMT_YEARS if year not in here)
    if not here:
        raise FileError(f"{arguments.table} needs one of {missing} in {arguments.data_dir}, and none is there.")
    if missing:
        warn(f"without a panel, because not in {arguments.data_dir}: {missing}.")
    return dict(zip(map(_wmt, here), read_years(here, arguments.data_dir), strict=True))


def _wmt(year: int | None) -> str:
    return f"wmt{year}"


def _size(rated: RatedSegments) -> str:
    return f"{len(set(rated.group))} groups, {len(rated.ratings)} segments"


def _measured_csv(found: Mapping[str, Sequence[SweepPoint]], options: RunOptions) -> bytes:
    """What was measured on what data, a line per setting, with its signature; empty where a metric has no such key."""
    rows = [(name, one) for name, own in found.items() for one in own]
    columns: dict[str, Sequence[Any]] = {"data": [name for name, _ in rows]}
    columns |= {key: ["" if getattr(one.spec, key) is None else str(getattr(one.spec, key)) for _, one in rows] for key in KEYS}
    columns |= {"pearson": [one.pearson for _, one in rows], "signature": [Scorer(one.spec, options).signature for _, one in rows]}
    return as_csv({name: np.array(values) for name, values in columns.items()})


def _errors_csv(errors: Sequence[SweepLine]) -> bytes:
    return as_csv(
        {
            "line": np.repeat([line.name for line in errors], [len(line.x) for line in errors]),
            "iterations": np.concatenate([line.x for line in errors]),
            "marginal_error": np.concatenate([line.y for line in errors]),
        }
    )


def _draw(drawing: FigureData, folder: Path) -> None:
    """Write a figure in every form, and its data."""
    panels = {name: [PlotCurve(*line) for line in own] for name, own in drawing.panels.items()}
    for suffix in SUFFIXES:
        write_file(folder / f"{drawing.stem}{suffix}", curves(panels, drawing.x, drawing.y, drawing.title, suffix))
    write_file(folder / f"{drawing.stem}.csv", drawing.data)


def _say(arguments: Arguments, model: str, readings: Sequence[FigureStatement]) -> int:
    print(f"{arguments.table}: {model}; written to {arguments.output}")
    print("\n".join(one.sentence for one in readings))
    return 0
