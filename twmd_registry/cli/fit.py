"""``twmd fit``: fit mean vectors, document frequencies and baselines on texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.groups import group
from twmd_registry.cli.inputs import read_texts
from twmd_registry.cli.metrics import make_scorers, options_of, parse_keys
from twmd_registry.cli.terminal import progress_bar
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.spec import make_spec

if TYPE_CHECKING:
    from twmd_registry.models.fitted import FittedFile

fit_command = group(
    "fit",
    "Fit a metric's files on your texts: mean vectors, document frequencies, a baseline.",
    package="twmd_registry.cli",
    sections={"Commands": ("fit", "mean idf baseline")},
    example="twmd fit mean corpus.txt --set model=roberta-base",
)
MEAN_KEYS = ("model", "revision", "adapter", "truncation", "dtype")
IDF_KEYS = ("model", "revision", "truncation")
files = declare.argument("files", nargs=-1, required=True, type=declare.INPUT, metavar="FILE...")
background = declare.output("Folder of the fit (default: the user's folder, where background:HASH is found).")


def _print_fitted(key: str, path: Path, arguments: Arguments) -> None:
    """Print the value of a key: the file, or its hash if the file is in the usual folder."""
    print(f"use --set {key}{path if arguments.output else path.stem.rpartition('-')[2]}")


def _save(fitted: FittedFile, arguments: Arguments) -> Path:
    """Write a fitted file to the folder of ``-o``, or to where its hash is found."""
    return fitted.save(arguments.output and arguments.output / fitted.kind.name(fitted.hash))


def _fit(arguments: Arguments, key: str, names: Sequence[str]) -> int:
    """Fit the file for ``centering=background`` or ``idf=background``, and print the value to use."""
    keys: dict[str, Any] = dict(parse_keys(arguments, names))
    if "model" not in keys:
        default = make_spec(MetricName.TWMD)
        keys = {name: getattr(default, name) for name in ("model", "adapter") if name in names} | keys
    spec = make_spec(MetricName.SBERT, layer=0, centering="none", **keys)
    texts = read_texts(arguments.files, arguments)
    from twmd_registry.encode.mean_vectors import read_background
    from twmd_registry.engine.token_backend import TokenAlignmentBackend

    backend = TokenAlignmentBackend(spec, options_of(arguments))
    fit = backend.fit_idf if key == "idf" else backend.fit_background
    with progress_bar("texts") as progress:
        fitted = fit(texts, progress)
    path = _save(fitted, arguments)
    if key == "idf":
        print(f"counted over {len(texts)} texts")
    else:
        about = read_background(path).about
        print(f"fitted on {about['texts']} texts, {about['tokens']} tokens")
    _print_fitted(f"{key}=background:", path, arguments)
    return 0


@command("mean", example="twmd fit mean corpus.txt --set model=roberta-base")
@files
@declare.columns
@declare.keys(*MEAN_KEYS)
@background
@declare.placement
def mean_command(arguments: Arguments) -> int:
    """Fit the mean vector that centering=background subtracts, and print the value to use.

    FILE has texts, one per line, or is a table.
    """
    return _fit(arguments, "centering", MEAN_KEYS)


@command("idf", example="twmd fit idf corpus.txt --set model=roberta-base")
@files
@declare.columns
@declare.keys(*IDF_KEYS)
@background
@declare.device
def idf_command(arguments: Arguments) -> int:
    """Count in how many texts each token occurs, for idf=background, and print the value to use.

    FILE has texts, one per line, or is a table.
    """
    return _fit(arguments, "idf", IDF_KEYS)


@command("baseline", sacrebleu=(), example="twmd fit baseline corpus.txt -m bertscore_centered --set centering=none")
@files
@declare.columns
@declare.metric("The metric.", [name for name in MetricName if name is not MetricName.ENSEMBLE], required=True)
@declare.option("--pairs", "N", "Number of pairs (default: 10000).", default=10_000)
@declare.seed("Seed of the draw", 0)
@declare.output("Folder of the fit (default: the user's folder, where baseline=HASH is found).")
@declare.settings
@declare.run_options
def baseline_command(arguments: Arguments) -> int:
    """Score random pairs of texts, for baseline=HASH, which rescales scores so that unrelated texts get 0.

    FILE has texts, one per line, or is a table.
    """
    texts = read_texts(arguments.files, arguments)

    with progress_bar("pairs", arguments.pairs) as progress:
        (scorer,) = make_scorers(arguments.requested, options_of(arguments))
        fitted = scorer.fit_baseline(texts, arguments.pairs, arguments.seed, progress)
    path = _save(fitted, arguments)
    print(path.read_text(encoding="utf-8"), end="")
    _print_fitted("baseline=", path, arguments)
    return 0
