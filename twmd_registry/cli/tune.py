"""``twmd tune``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tabulate import tabulate

from twmd_registry.cli.files import check_folder, write_file
from twmd_registry.cli.options import options_of
from twmd_registry.cli.terminal import Style, complain, progress_bar, say
from twmd_registry.errors import SpecError, warn
from twmd_registry.judgments.rows import RatedSegments
from twmd_registry.judgments.sets import content_of, read_all_rated, title_of
from twmd_registry.metaeval.overlap import hash_references, write_hashes
from twmd_registry.metaeval.tune import GRID, MOST_SETTINGS, Trial, layers_above_embeddings, read_tried, settings, tune, varied_keys, write_preset
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.fingerprint import known_name
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.names import EMBEDDED_MODEL, Centering
from twmd_registry.registry.own_presets import PRESET_FILE
from twmd_registry.registry.presets import HASHES, name_preset
from twmd_registry.report.figures import SUFFIXES, require_matplotlib
from twmd_registry.report.surface import SurfacePoint, surface

SHOWN_TRIALS = 12


def run_tune(arguments: argparse.Namespace) -> int:
    """Try every setting of the grid, print the best, and write trials, surfaces and a preset where a folder is given.

    Raises:
        SpecError: A key to try that no metric has.
    """
    check_folder(arguments.output)
    if arguments.output:
        require_matplotlib()
        arguments.name = name_preset(arguments.name, f"{arguments.model}-tuned")  # what cannot be fails here
    options = options_of(arguments)
    tried = read_tried(arguments.tried)
    most = None if tried else MOST_SETTINGS
    if "centering" not in tried and known_name(arguments.model) not in {"embedded", EMBEDDED_MODEL}:
        tried["centering"] = tuple(centering for centering in GRID["centering"] if centering is not Centering.BACKGROUND)
        warn("background centering is not tried: fit a mean vector of this model ('twmd fit-mean') and give --try centering=background:HASH,none,...")
    metrics = list(dict.fromkeys(arguments.metrics))
    if unused := [name for name in tried if not any(name in entry(metric).keys for metric in metrics)]:
        raise SpecError(f"--try {unused[0]}: none of {', '.join(metrics)} has such a key.")
    data = read_all_rated(arguments.data)
    layers = arguments.layers or layers_above_embeddings(arguments.model, options)
    limit, kept = most and most // len(metrics), ("layer",) if arguments.layers else ()
    specs = list(dict.fromkeys(spec for metric in metrics for spec in settings(metric, arguments.model, layers, tried, most=limit, kept=kept)))
    segments = sum(len(rated.ratings) for rated in data.values())
    if most:
        complain("twmd:", Style.HEADER, f"at most {most} settings are tried without --try KEY=VALUE,...")

    def announce(seconds: float) -> None:
        complain("twmd:", Style.HEADER, f"{len(specs)} settings on {segments} segments take about {duration(seconds)}.")

    with progress_bar() as progress:
        trials = tune(specs, list(data.values()), options, progress, announce)
    by_metric = {metric: [trial for trial in trials if trial.spec.metric == metric] for metric in metrics}
    for metric, own in by_metric.items():
        print(f"{metric}: {len(own)} settings on {segments} segments")
        say(f"{tabulate([_row(trial, varied_keys(own)) for trial in own[:SHOWN_TRIALS]], headers='keys', disable_numparse=True)} \n")
    if arguments.output:
        _write(arguments, by_metric, {f"{title_of(name)}@{content_of(rated)} ({len(rated.ratings)} segments)": rated for name, rated in data.items()})
    return 0


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
    values = trial.spec.values()
    return {name: KEYS[name].format(values[name]) if name in values else "-" for name in names} | {"pearson": f"{trial.pearson:.4f}"}


def _write(arguments: argparse.Namespace, by_metric: dict[str, list[Trial]], data: dict[str, RatedSegments]) -> None:
    """Every trial, a surface per metric, the preset, and hashes of the data that it was chosen on."""
    folder = arguments.output
    for metric, own in by_metric.items():
        rows = [_row(trial, varied_keys(own)) | {"pearson": f"{trial.pearson:.6f}"} for trial in own]
        write_file(folder / f"{metric}.tsv", "\n".join("\t".join(row) for row in [list(rows[0]), *(row.values() for row in rows)]).encode() + b"\n")
        if all(isinstance(trial.spec.layer, int) for trial in own):
            points = [SurfacePoint(str(one.spec.centering), int(str(one.spec.layer)), one.spec.temperature, one.pearson) for one in own]
            for suffix in SUFFIXES:
                write_file(folder / f"{metric}{suffix}", surface(points, f"{metric}: best mean Pearson", suffix))
    trials = [trial for own in by_metric.values() for trial in own]
    write_hashes({name: hash_references(rated.references) for name, rated in data.items()}, (folder / PRESET_FILE).with_suffix(HASHES))
    write_file(folder / PRESET_FILE, write_preset(arguments.name, trials, list(data)).encode())
