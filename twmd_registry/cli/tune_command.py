"""``twmd tune``."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.output import as_json, check_folder, format_table, write_file
from twmd_registry.cli.requested import options_of, parse_assignments
from twmd_registry.cli.terminal import Style, complain, progress_bar, say
from twmd_registry.errors import SpecError, warn
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.fingerprint import known_name
from twmd_registry.registry.keys import KEYS, Value
from twmd_registry.registry.names import EMBEDDED_MODEL, Centering, MetricName
from twmd_registry.registry.own_presets import PRESET_FILE
from twmd_registry.registry.presets import HASHES, name_preset

if TYPE_CHECKING:
    from twmd_registry.judgments.rated import RatedSegments
    from twmd_registry.metaeval.tune import Trial

SHOWN_TRIALS = 12
TRIED = "What is tried of a key (temperature=0.1,0.2 ngram=1,2; default: at most 200 settings)."


@command("tune", example="twmd tune twmd --data wmt:wmt15.jsonl wmt:wmt16.jsonl")
@declare.argument("metrics", nargs=-1, required=True, shell_complete=declare.offer(MetricName), metavar="METRIC...")
@declare.many("--data", "DATA", declare.RATED, required=True)
@declare.many("--set", "KEY=VALUE", "What stays fixed: model=MODEL (default: embedded), or any other key.")
@declare.many("--layers", "K", "Hidden states to try (default: all from 1).", type=int)
@declare.many("--try tried", "KEY=VALUE,..", TRIED)
@declare.output("Write every trial (TSV), the surfaces (PNG, SVG), and preset.toml with hashes of the data.")
@declare.option("--name", "NAME", "Of the preset (default: MODEL-tuned, with a number where that is taken).")
@declare.output_format(*declare.RESULT_FORMATS)
@declare.run_options
def tune_command(arguments: Arguments) -> int:
    """Choose layer, temperature, centering and special tokens on rated data (TWMD paper, Appendix B).

    Tries every setting of the grid, prints the best, and writes trials, surfaces and a preset where a folder is given.
    """
    metrics = list(dict.fromkeys(arguments.metrics))
    keys = {key for metric in metrics for key in entry(metric).keys}
    check_folder(arguments.output)
    fixed = dict(parse_assignments(arguments.set))
    model, layer = fixed.pop("model", "embedded"), fixed.pop("layer", None)
    if layer is not None and arguments.layers:
        raise SpecError("--set layer and --layers both say which layers are tried: give one of them.")
    if layer is not None and not layer.isdecimal():
        raise SpecError(f"--set layer={layer}: expected the number of a hidden state; --layers takes several.")
    name = name_preset(arguments.name, f"{model}-tuned") if arguments.output else ""
    options = options_of(arguments)
    from twmd_registry.judgments.sets import read_all_rated
    from twmd_registry.metaeval.tune import MOST_SETTINGS, layers_above_embeddings, settings, tune
    from twmd_registry.report.figures import require_matplotlib

    if arguments.output:
        require_matplotlib()
    tried = _values_to_try(model, fixed, arguments.tried)
    if unused := [key for key in tried if key not in keys]:
        raise SpecError(f"{unused[0]}: none of {', '.join(metrics)} has such a key.")
    data = read_all_rated(arguments.data)
    layers = [int(layer)] if layer is not None else arguments.layers
    limit, kept = None if arguments.tried else MOST_SETTINGS // len(metrics), ("layer",) if layers else ()
    layers = layers or layers_above_embeddings(model, options)
    grids = [settings(metric, model, layers, tried, most=limit, kept=kept) for metric in metrics]
    specs = list(dict.fromkeys(itertools.chain.from_iterable(grids)))
    segments = sum(len(rated.ratings) for rated in data.values())
    if limit:
        complain("twmd:", Style.HEADER, f"at most {MOST_SETTINGS} settings are tried without --try KEY=VALUE,...")

    def announce(seconds: float) -> None:
        size = f"{len(specs)} settings on {segments} segments"
        complain("twmd:", Style.HEADER, f"{size} take about {format_duration(seconds)}.")

    with progress_bar() as progress:
        trials = tune(specs, list(data.values()), options, progress, announce)
    by_metric = {metric: [trial for trial in trials if trial[0].metric == metric] for metric in metrics}
    best = {metric: _rows(own)[:SHOWN_TRIALS] for metric, own in by_metric.items()}
    if arguments.format == "json":
        print(as_json(best))
    else:
        for metric, rows in best.items():
            print(f"{metric}: {len(by_metric[metric])} settings on {segments} segments")
            say(format_table(list(rows[0]), [list(row.values()) for row in rows], arguments.format) + "\n")
    if arguments.output:
        _write(arguments.output, name, by_metric, data)
    return 0


def _values_to_try(model: str, fixed: Mapping[str, str], tried: Sequence[str]) -> dict[str, tuple[Value, ...]]:
    """Read `--set` and `--try`; of a model without a mean vector background centering is not tried."""
    from twmd_registry.metaeval.tune import GRID, read_tried

    values = read_tried([*(f"{key}={value.replace(',', '%2C')}" for key, value in fixed.items()), *tried])
    if "centering" not in values and known_name(model) not in {"embedded", EMBEDDED_MODEL}:
        values["centering"] = tuple(value for value in GRID["centering"] if value is not Centering.BACKGROUND)
        fit = "fit a mean vector of this model ('twmd fit-mean') and give --try centering=background:HASH,none,..."
        warn(f"background centering is not tried: {fit}")
    return values


def format_duration(seconds: float) -> str:
    """Write a time to two digits, in the unit that suits it.

    >>> format_duration(7), format_duration(400), format_duration(7000)
    ('7 seconds', '6.7 minutes', '1.9 hours')
    """
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return f"{max(seconds, 1):.0f} seconds"


def _rows(trials: Sequence[Trial], digits: int = 4) -> list[dict[str, str]]:
    """Return a row per trial: the keys in which they differ, and the mean Pearson correlation."""
    from twmd_registry.metaeval.tune import varied_keys

    names, rows = varied_keys(trials), []
    for spec, pearson in trials:
        values = spec.values()
        cells = {name: KEYS[name].format(values[name]) if name in values else "-" for name in names}
        rows.append(cells | {"pearson": f"{pearson:.{digits}f}"})
    return rows


def _write(folder: Path, name: str, by_metric: dict[str, list[Trial]], data: dict[str, RatedSegments]) -> None:
    """Write every trial, a surface per metric, the preset, and hashes of the data that it was chosen on."""
    from twmd_registry.judgments.sets import content_of, title_of
    from twmd_registry.metaeval.overlap import hash_references, write_hashes
    from twmd_registry.metaeval.tune import write_preset
    from twmd_registry.report.figures import SUFFIXES, surface

    for metric, own in by_metric.items():
        rows = _rows(own, 6)
        lines = ["\t".join(row) for row in [list(rows[0]), *(row.values() for row in rows)]]
        write_file(folder / f"{metric}.tsv", "".join(f"{line}\n" for line in lines).encode())
        if all(isinstance(spec.layer, int) for spec, _ in own):
            points = [(str(spec.centering), int(str(spec.layer)), spec.temperature, pearson) for spec, pearson in own]
            for suffix in SUFFIXES:
                write_file(folder / f"{metric}{suffix}", surface(points, f"{metric}: best mean Pearson", suffix))
    hashes = {
        f"{title_of(source)}@{content_of(rated)} ({len(rated.ratings)} segments)": hash_references(rated.references)
        for source, rated in data.items()
    }
    write_hashes(hashes, (folder / PRESET_FILE).with_suffix(HASHES))
    trials = list(itertools.chain.from_iterable(by_metric.values()))
    write_file(folder / PRESET_FILE, write_preset(name, trials, list(hashes)).encode())
