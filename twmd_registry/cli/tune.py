"""``twmd tune``: tune keys on human ratings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.metrics import options_of, parse_assignments
from twmd_registry.cli.output import SUFFIXES, as_json
from twmd_registry.cli.terminal import HEADER, complain, printed, progress_bar
from twmd_registry.comparison.text_table import MISSING, UNDEFINED, TextTable, as_text
from twmd_registry.errors import MissingExtraError, SpecError
from twmd_registry.judgments.sets import read_all_rated, title_of
from twmd_registry.messages import warn
from twmd_registry.registry.hashes import known_name
from twmd_registry.registry.keys import KEYS, Value, key
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import EMBEDDED_MODEL, MetricName
from twmd_registry.registry.own_presets import PRESET_FILE
from twmd_registry.registry.paths import write_file
from twmd_registry.registry.presets import HASHES, name_preset
from twmd_registry.registry.spec import make_spec

if TYPE_CHECKING:
    from twmd_registry.judgments.rated import RatedSegments
    from twmd_registry.metaeval.tune import Trial
    from twmd_registry.registry.options import RunOptions


SHOWN_TRIALS = 12
TRIED = "Values of a key to try (temperature=0.1,0.2 ngram=1,2; default: at most 200 settings)."


@command("tune", example="twmd tune wmt:wmt15.jsonl wmt:wmt16.jsonl -m twmd", note=declare.RATED)
@declare.argument("data", nargs=-1, required=True, type=declare.DATA, metavar="DATA...")
@declare.metrics((), f"Metrics by name: {', '.join(MetricName)} (default: twmd).")
@declare.many("--set", "KEY=VALUE", "Set a key for all trials: model=MODEL (default: embedded), or any other key.")
@declare.many("--layers", "K", "Hidden states to try (default: all from 1).", type=int)
@declare.many("--try tried", "KEY=VALUE,..", TRIED)
@declare.output("Write every trial (TSV), the surfaces (PNG, SVG), and preset.toml with hashes of the data.")
@declare.option("--name", "NAME", "Name of the preset (default: MODEL-tuned, with a number if that name is taken).")
@declare.output_format(*declare.RESULT_FORMATS)
@declare.run_options
def tune_command(arguments: Arguments) -> int:
    """Choose layer, temperature, centering and special tokens on rated data (TWMD paper, Appendix B).

    Tries every setting of the grid and prints the best. With -o, writes trials, surfaces and a preset.
    """
    names = dict.fromkeys(arguments.metrics or [MetricName.TWMD])
    keys = {key for name in names for key in entry(name).keys}
    metrics = list(map(MetricName, names))
    fixed = parse_assignments(arguments.set)
    model, layer = fixed.pop("model", "embedded"), fixed.pop("layer", None)
    if layer is not None and arguments.layers:
        raise SpecError("--set layer and --layers both choose layers: pass one of them.")
    if layer is not None and not layer.isdecimal():
        raise SpecError(f"--set layer={layer}: expected the number of a hidden state; use --layers for several.")
    tried = read_tried([*(f"{key}={value.replace(',', '%2C')}" for key, value in fixed.items()), *arguments.tried])
    if unused := [key for key in tried if key not in keys]:
        raise SpecError(f"{unused[0]}: not used by {', '.join(metrics)}.")
    name = name_preset(arguments.name, f"{model}-tuned") if arguments.output else ""
    options = options_of(arguments)
    with progress_bar(first="loading torch and the model") as progress:
        from twmd_registry.metaeval import tune

        if "centering" not in tried:
            tried["centering"] = _centerings_to_try(model)
        data = read_all_rated(arguments.data)
        rated = list(data.values())
        layers = [int(layer)] if layer is not None else arguments.layers
        limit, kept = None if arguments.tried else tune.MAX_SETTINGS // len(metrics), ("layer",) if layers else ()
        layers = layers or tune.layers_above_embeddings(model, options)
        grids = [tune.settings(metric, model, layers, tried, max_settings=limit, kept=kept) for metric in metrics]
        specs = list(dict.fromkeys(itertools.chain.from_iterable(grids)))
        segments = sum(len(one.ratings) for one in rated)
        if limit:
            complain("twmd:", HEADER, f"at most {tune.MAX_SETTINGS} settings are tried without --try KEY=VALUE,...")
        trials = tune.tune(specs, rated, options, progress, partial(_announce, len(specs), segments))
        if len(specs) * tune.SEGMENTS_PER_SETTING > segments:
            many = f"{len(specs)} settings on {segments} rows: the best setting is partly due to chance"
            warn(f"{many}. Rate more, or try fewer with --try and --layers, and check the choice on other data.")
        defaults = _measure_defaults(metrics, model, data, options)
    by_metric = {metric: [trial for trial in trials if trial[0].metric == metric] for metric in metrics}
    digits = None if arguments.format == "json" else 4
    best = {one.spec.metric: _shown(by_metric[one.spec.metric], one, rated, digits) for one in defaults}
    heads = [
        f"{_verdict(by_metric, one, rated)}\n\n{name}: {len(by_metric[name])} settings on {segments} segments"
        for name, one in zip(best, defaults, strict=True)
    ]
    tables = (_table(rows, SUFFIXES[arguments.format], head) for rows, head in zip(best.values(), heads, strict=True))
    with printed(as_json(best) if arguments.format == "json" else "\n\n".join(tables)):
        if arguments.output:
            written = _write(arguments.output, name, by_metric, data)
    if folder := arguments.output:
        use = f"twmd setup preset add {folder / PRESET_FILE}"
        example = f"twmd score ref.txt -i system.txt -m {metrics[0]} --preset {name}"
        beaten = any(by_metric[trial.spec.metric][0].pearson > trial.pearson for trial in defaults)
        when = "Next" if beaten else "To use the best of the others anyway"
        complain("twmd:", HEADER, f"wrote {', '.join(written)} into {folder}. {when}: '{use}', then '{example}'.")
    return 0


def _announce(settings: int, segments: int, seconds: float) -> None:
    about = timedelta(seconds=round(seconds))
    complain("twmd:", HEADER, f"{settings} settings on {segments} segments take about {about} (h:mm:ss).")


def _measure_defaults(
    metrics: Sequence[str], model: str, data: Mapping[str, RatedSegments], options: RunOptions
) -> list[Trial]:
    """Measure every metric's default, and warn if it was trained on these references."""
    from twmd_registry.engine.scorer import Scorer
    from twmd_registry.metaeval.overlap import warn_about_overlap
    from twmd_registry.metaeval.tune import tune

    usual = None if model in {"embedded", EMBEDDED_MODEL} else model
    specs = [make_spec(metric, model=usual) for metric in metrics]
    for source, rated in data.items():
        names, scorers = [f"the default of {metric}" for metric in metrics], [Scorer(spec, options) for spec in specs]
        warn_about_overlap(names, scorers, rated.references, title_of(source))
    return tune(specs, list(data.values()), options)


def _verdict(by_metric: Mapping[MetricName, Sequence[Trial]], default: Trial, data: Sequence[RatedSegments]) -> str:
    """Say whether a metric's best setting agrees better than its default."""
    from twmd_registry.metaeval.tune import half_width

    best = by_metric[default.spec.metric][0].pearson
    if not best > default.pearson:
        return "'default' agrees best: keep it."
    if best - half_width(best, data) > default.pearson:
        return "The best setting agrees better than 'default'."
    return "The best setting is not clearly better than 'default'."


def read_tried(texts: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """Parse the values to try, ``KEY=VALUE,VALUE,...``; a comma inside a value is written ``%2C``."""
    tried: dict[str, tuple[Value, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values or name in {*tried, "layer", "model"}:
            expected = "expected KEY=VALUE,VALUE once per key; use --layers for layers, --set model=MODEL for a model"
            raise SpecError(f"--try {text!r}: {expected}.")
        tried[name] = tuple(key(name).parse(value.replace("%2C", ",")) for value in values.split(","))
    return tried


def _centerings_to_try(model: str) -> tuple[Value, ...]:
    """Return the centerings of the grid, without background centering if the model has no mean vector."""
    from twmd_registry.metaeval.tune import GRID

    if known_name(model) in {"embedded", EMBEDDED_MODEL}:
        return GRID["centering"]
    fit = "fit a mean vector for this model ('twmd fit mean') and pass --try centering=background:HASH,none,..."
    warn(f"background centering is not tried: {fit}")
    return tuple(value for value in GRID["centering"] if value != "background")


def _shown(
    trials: Sequence[Trial], default: Trial, data: Sequence[RatedSegments], digits: int | None
) -> list[dict[str, object]]:
    """Return the rows to print: the best trials and the default, each with half the width of its interval."""
    from twmd_registry.metaeval.tune import half_width, varied_keys

    shown = (*trials[:SHOWN_TRIALS], default)
    names = varied_keys(trials)
    rows = list[dict[str, object]]()
    for place, trial in enumerate(shown):
        half = half_width(trial.pearson, data)
        ci = half if digits is None else UNDEFINED if math.isnan(half) else f"{half:.{digits}f}"
        best = "best" if trial.pearson > default.pearson else "best other"
        what = "default" if trial is default else "" if place else best
        rows.append(_row(trial, names, digits) | {"ci": ci, "setting": what})
    if digits:  # a key with only one value, such as the batch size, distinguishes nothing
        every = [_row(trial, names, digits) for trial in (*trials, default)]
        implied = [name for name in names if len({row[name] for row in every} - {MISSING}) < 2]
        rows = [{name: cell for name, cell in row.items() if name not in implied or name == "layer"} for row in rows]
    return rows


def _row(trial: Trial, names: Sequence[str], digits: int | None) -> dict[str, object]:
    spec, pearson = trial
    values = {name: spec.values().get(name, KEYS[name].neutral) for name in names}
    if digits is None:
        return {**values, "pearson": pearson}
    cells = {name: MISSING if value is None else KEYS[name].format(value) for name, value in values.items()}
    return {**cells, "pearson": UNDEFINED if math.isnan(pearson) else f"{pearson:.{digits}f}"}


def _table(rows: Sequence[dict[str, object]], form: str, title: str = "") -> str:
    cells = [tuple(map(str, row.values())) for row in rows]
    return as_text(TextTable(title, tuple(rows[0]), cells), form, list(rows[0]).index("pearson"))


def _write(
    folder: Path, name: str, by_metric: Mapping[MetricName, list[Trial]], data: dict[str, RatedSegments]
) -> list[str]:
    """Write every trial, a surface per metric if matplotlib is installed, the preset, and hashes of its data.

    Returns:
        The names of the files.
    """
    from twmd_registry.metaeval.overlap import write_hashes
    from twmd_registry.metaeval.tune import varied_keys, write_preset
    from twmd_registry.report.figures import SUFFIXES, SurfacePoint, require_matplotlib, surface
    from twmd_registry.train.data import TrainingData, hashes_of

    written, draws = [PRESET_FILE, Path(PRESET_FILE).with_suffix(HASHES).name], True
    try:
        require_matplotlib("pictures of the settings need matplotlib")
    except MissingExtraError as error:
        draws = False
        warn(f"{error}; everything else is written.")
    for metric, tried in by_metric.items():
        rows = [_row(trial, varied_keys(tried), 6) for trial in tried]
        write_file(folder / f"{metric}.tsv", f"{_table(rows, 'tsv')}\n".encode())
        written.append(f"{metric}.tsv")
        if draws and all(spec.layer and len(spec.layer.numbers) == 1 for spec, _ in tried):
            known = [(str(spec.centering), spec.layer, spec.temperature, pearson) for spec, pearson in tried]
            points = [SurfacePoint(mean, layer.numbers[0], t, pearson) for mean, layer, t, pearson in known if layer]
            for suffix in SUFFIXES:
                written.append(f"{metric}{suffix}")
                write_file(folder / f"{metric}{suffix}", surface(points, f"{metric}: best mean Pearson", suffix))
    hashes = hashes_of(TrainingData(title_of(source), rated) for source, rated in data.items())
    write_hashes(hashes, (folder / PRESET_FILE).with_suffix(HASHES))
    trials = list(itertools.chain.from_iterable(by_metric.values()))
    write_file(folder / PRESET_FILE, write_preset(name, trials, list(hashes)).encode())
    return written
