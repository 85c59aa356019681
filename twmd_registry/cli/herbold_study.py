"""``twmd study``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from twmd_registry.cli.declare import Arguments
from twmd_registry.cli.files import write_file
from twmd_registry.cli.requested import options_of, spec_with_keys
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.engine.scorer import Scorer, make_scorer, score_all
from twmd_registry.errors import FileError, InputError, ModelError, warn
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.herbold import SOURCES, areas, find_data, length_table, table
from twmd_registry.metaeval.lexical import sentence_bleu
from twmd_registry.metaeval.overlap import warn_about_overlap
from twmd_registry.metaeval.roc import curve
from twmd_registry.metaeval.table import FORMATS, TextTable, as_text
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec
from twmd_registry.report import figures

NAMES = {"stsscore": "STSScore", "bertscore": "BERTScore", "sbert": "S-BERT"}
"""What the paper calls them; the order is that of its ensemble."""
ROWS = ("BERTScore", "S-BERT", "STSScore")
"""The order of its tables."""
MODELS = {"RoBERTa": "stsscore;preset=roberta-base-stsb", "BERT-base": "stsscore;preset=bert-base-stsb"}
"""The models of Table 2, which are on the Hub."""

Scores = dict[str, dict[str, np.ndarray]]
"""By row, and by data set, a score per segment."""


def run_study(arguments: Arguments) -> int:
    """Score the data sets that are here by every measure, and write tables and figures.

    Raises:
        InputError: Neither a folder nor the Hub is named.
    """
    figures.require_matplotlib()
    if not arguments.data_dir and not arguments.hub:
        raise InputError("no data: give --data-dir DIR, --hub, or both.")
    _check_empty(arguments.output)
    data, missing = find_data(arguments.data_dir, hub=arguments.hub)
    for one in missing:
        warn(f"left out: {one}.")
    options = options_of(arguments)
    members = {NAMES[name]: getattr(arguments, name) for name in NAMES}
    scorers = {name: make_scorer(spec_with_keys(member), options) for name, member in members.items()}
    scorers["Ensemble"] = make_scorer(make_spec(MetricName.ENSEMBLE, members=",".join(members.values())), options)
    signatures = {name: scorer.signature for name, scorer in scorers.items()}  # loads the models: what cannot be fails here
    write_file(arguments.output / "data.txt", "".join(f"{name}\t{len(rated.ratings)}\n" for name, rated in data.items()).encode())
    scores = {"BLEU": {name: sentence_bleu(rated) for name, rated in data.items()}} | _score(scorers, data)
    models = {"embedded": scores["STSScore"]} | _published_models(data, options)
    tables = [
        table("Table 1", data, {name: scores[name] for name in ("BLEU", *ROWS)}),
        table("Table 2", data, models),
        table("Table 3", data, {name: scores[name] for name in (*ROWS, "Ensemble")}),
        length_table(data, scores["STSScore"]),
        areas(data, scores),
    ]
    _write_tables(tables, signatures, arguments.output)
    _draw(data, scores, arguments.output)
    say("\n\n".join(as_text(one, "simple") for one in tables))
    print("\n" + "\n".join(f"{name}: {signature}" for name, signature in signatures.items()))
    return 0


def _check_empty(output: Path) -> None:
    """Refuse a folder with files: those of a run on other data would stay beside the new ones."""
    if output.is_dir() and any(output.iterdir()):
        raise FileError(f"{output} is not empty: give a new folder, so that all files in it are of one run.")


def _score(scorers: Mapping[str, Scorer], data: Mapping[str, RatedSegments]) -> Scores:
    """All scorers on all data sets, each different text encoded once per model; warns of what they were trained on."""
    found: Scores = {name: {} for name in scorers}
    for name, rated in data.items():
        with progress_bar(total=len(rated.ratings)) as progress:
            sets = score_all(list(scorers.values()), rated.predictions, rated.references, progress=progress)
        warn_about_overlap(scorers, scorers.values(), rated.references, name)
        for measure, one in zip(scorers, sets, strict=True):
            found[measure][name] = np.array(one.scores)
    return found


def _published_models(data: Mapping[str, RatedSegments], options: RunOptions) -> Scores:
    """STSScore by the models that are on the Hub, as far as they can be had."""
    found: Scores = {}
    for name, member in MODELS.items():
        try:
            with make_scorer(spec_with_keys(member), options) as one:
                found |= _score({name: one}, data)
        except ModelError as error:
            warn(f"left out: {name} of Table 2 ({error})")
    return found


def _write_tables(tables: list[TextTable], signatures: Mapping[str, str], output: Path) -> None:
    for one in tables:
        for suffix, form in FORMATS.items():
            write_file(output / f"{one.name.lower().replace(' ', '')}.{suffix}", as_text(one, form).encode() + b"\n")
    write_file(output / "signatures.txt", "".join(f"{name}\t{signature}\n" for name, signature in signatures.items()).encode())


def _draw(data: Mapping[str, RatedSegments], scores: Scores, output: Path) -> None:
    """The figures, each as PNG and SVG, with its data as CSV."""
    for name, rated in data.items():
        own = {measure: found[name] for measure, found in scores.items()}
        stem = name.lower()
        write_file(output / f"{stem}.csv", figures.as_csv({"rating": rated.ratings, **own}))
        draw = figures.densities if SOURCES[name].classes else figures.scatter
        for suffix in figures.SUFFIXES:
            write_file(output / f"{stem}{suffix}", draw(rated.ratings, own, name, suffix))
        if SOURCES[name].classes and 0 < rated.ratings.sum() < len(rated.ratings):
            curves = {measure: curve(found, rated.ratings == 1) for measure, found in own.items()}
            for suffix in figures.SUFFIXES:
                write_file(output / f"{stem}-roc{suffix}", figures.roc(curves, name, suffix))
