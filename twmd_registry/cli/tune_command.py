"""``twmd tune``."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli.declare import (
    DATA,
    FOLDER,
    RATED,
    RESULT_FORMATS,
    Arguments,
    MetricParameter,
    argument,
    command,
    many,
    option,
    output_format,
    run_options,
)
from twmd_registry.cli.inputs import check_folder, write_file
from twmd_registry.cli.output import as_json, format_table
from twmd_registry.cli.requested import options_of, parse_assignments
from twmd_registry.cli.terminal import Style, complain, progress_bar, say
from twmd_registry.errors import SpecError, warn
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.fingerprint import known_name
from twmd_registry.registry.keys import KEYS, Value
from twmd_registry.registry.names import EMBEDDED_MODEL, Centering
from twmd_registry.registry.own_presets import PRESET_FILE
from twmd_registry.registry.presets import HASHES, name_preset

if TYPE_CHECKING:
    from twmd_registry.judgments.rated import RatedSegments
    from twmd_registry.metaeval.tune import Trial

SHOWN_TRIALS = 12


@command("tune", example="twmd tune twmd --data wmt:wmt15.jsonl wmt:wmt16.jsonl")
@argument("metrics", nargs=-1, required=True, type=MetricParameter(bare=True), metavar="METRIC...")
@many("--data", type=DATA, required=True, metavar="DATA", help=RATED)
@many("--set", metavar="KEY=VALUE", help="What stays fixed: model=MODEL (default: embedded), or any other key.")
@many("--layers", type=int, metavar="K", help="Hidden states to try (default: all from 1).")
@many(
    "--try",
    "tried",
    metavar="KEY=VALUE,..",
    help="What is tried of a key (temperature=0.1,0.2 ngram=1,2; default: at most 200 settings).",
)
@option(
    "-o",
    "--output",
    type=FOLDER,
    metavar="DIR",
    help="Write every trial (TSV), the surfaces (PNG, SVG), and preset.toml with hashes of the data.",
)
@option("--name", metavar="NAME", help="Of the preset (default: MODEL-tuned, with a number where that is taken).")
@output_format(*RESULT_FORMATS)
@run_options
def tune_command(arguments: Arguments) -> int:
    """Choose layer, temperature, centering and special tokens on rated data (TWMD paper, Appendix B).

    Tries every setting of the grid, prints the best, and writes trials, surfaces and a preset where a folder is given.

    Raises:
        SpecError: A key to try that no metric has.
    """
    check_folder(arguments.output)
    fixed = dict(parse_assignments(arguments.set))
    model, layer = fixed.pop("model", "embedded"), fixed.pop("layer", None)
    if layer is not None and arguments.layers:
        raise SpecError("--set layer and --layers both say which layers are tried: give one of them.")
    name = name_preset(arguments.name, f"{model}-tuned") if arguments.output else ""
    options = options_of(arguments)
    from twmd_registry.judgments.sets import read_all_rated
    from twmd_registry.metaeval.tune import MOST_SETTINGS, layers_above_embeddings, settings, tune, varied_keys
    from twmd_registry.report.figures import require_matplotlib

    if arguments.output:
        require_matplotlib()
    tried = _values_to_try(model, fixed, arguments.tried)
    most = None if arguments.tried else MOST_SETTINGS
    metrics = list(dict.fromkeys(arguments.metrics))
    if unused := [name for name in tried if not any(name in entry(metric).keys for metric in metrics)]:
        raise SpecError(f"{unused[0]}: none of {', '.join(metrics)} has such a key.")
    data = read_all_rated(arguments.data)
    layers = [int(layer)] if layer is not None else arguments.layers or layers_above_embeddings(model, options)
    limit, kept = most and most // len(metrics), ("layer",) if layer is not None or arguments.layers else ()
    grids = [settings(metric, model, layers, tried, most=limit, kept=kept) for metric in metrics]
    specs = list(dict.fromkeys(itertools.chain.from_iterable(grids)))
    segments = sum(len(rated.ratings) for rated in data.values())
    if most:
        complain("twmd:", Style.HEADER, f"at most {most} settings are tried without --try KEY=VALUE,...")

    def announce(seconds: float) -> None:
        complain("twmd:", Style.HEADER, f"{len(specs)} settings on {segments} segments take about {duration(seconds)}.")

    with progress_bar() as progress:
        trials = tune(specs, list(data.values()), options, progress, announce)
    by_metric = {metric: [trial for trial in trials if trial[0].metric == metric] for metric in metrics}
    shown = {
        metric: [_row(trial, varied_keys(own)) for trial in own[:SHOWN_TRIALS]] for metric, own in by_metric.items()
    }
    if arguments.format == "json":
        print(as_json(shown))
    else:
        for metric, rows in shown.items():
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
        warn(
            "background centering is not tried: fit a mean vector of this model ('twmd fit-mean') and give "
            "--try centering=background:HASH,none,..."
        )
    return values


def duration(seconds: float) -> str:
    """Write a time to two digits, in the unit that suits it.

    >>> duration(7), duration(400), duration(7000)
    ('7 seconds', '6.7 minutes', '1.9 hours')
    """
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return f"{max(seconds, 1):.0f} seconds"


def _row(trial: Trial, names: Sequence[str]) -> dict[str, str]:
    spec, pearson = trial
    values = spec.values()
    return {name: KEYS[name].format(values[name]) if name in values else "-" for name in names} | {
        "pearson": f"{pearson:.4f}"
    }


def _write(folder: Path, name: str, by_metric: dict[str, list[Trial]], data: dict[str, RatedSegments]) -> None:
    """Write every trial, a surface per metric, the preset, and hashes of the data that it was chosen on."""
    from twmd_registry.judgments.sets import content_of, title_of
    from twmd_registry.metaeval.overlap import hash_references, write_hashes
    from twmd_registry.metaeval.tune import varied_keys, write_preset
    from twmd_registry.report.figures import SUFFIXES, surface

    for metric, own in by_metric.items():
        rows = [_row(trial, varied_keys(own)) | {"pearson": f"{trial[1]:.6f}"} for trial in own]
        write_file(
            folder / f"{metric}.tsv",
            "\n".join("\t".join(row) for row in [list(rows[0]), *(row.values() for row in rows)]).encode() + b"\n",
        )
        if all(isinstance(spec.layer, int) for spec, _ in own):
            points = [(str(spec.centering), int(str(spec.layer)), spec.temperature, pearson) for spec, pearson in own]
            for suffix in SUFFIXES:
                write_file(folder / f"{metric}{suffix}", surface(points, f"{metric}: best mean Pearson", suffix))
    trials = [trial for own in by_metric.values() for trial in own]
    hashes = {
        f"{title_of(own)}@{content_of(rated)} ({len(rated.ratings)} segments)": hash_references(rated.references)
        for own, rated in data.items()
    }
    write_hashes(hashes, (folder / PRESET_FILE).with_suffix(HASHES))
    write_file(folder / PRESET_FILE, write_preset(name, trials, list(hashes)).encode())
