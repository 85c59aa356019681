"""``twmd fit-mean``, ``twmd fit-idf`` and ``twmd fit-baseline``: fit a part of a specification to texts."""

from __future__ import annotations

from pathlib import Path

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import read_texts
from twmd_registry.cli.output import check_folder
from twmd_registry.cli.requested import columns_of, make_scorers, options_of
from twmd_registry.cli.terminal import progress_bar
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.spec import MetricSpec, make_spec

files = declare.argument("files", nargs=-1, required=True, type=declare.INPUT, metavar="FILE...")
model = declare.option("--model", "MODEL", "A Hub id, a folder, or 'embedded' (the default).", default="embedded")


def _key(name: str) -> declare.Declare:
    return declare.option(f"--{name}", "VALUE", "As the key of the specification.")


def _encoder_spec(arguments: Arguments) -> MetricSpec:
    names = ("model", "revision", "adapter", "truncation", "dtype")
    keys = {name: getattr(arguments, name) for name in names if name in vars(arguments)}
    return make_spec(MetricName.SBERT, layer=0, centering="none", **keys)


def _print_use(key: str, path: Path, arguments: Arguments) -> None:
    """Print the value of a key: the file, or its hash where the file is in the usual folder."""
    print(f"use --set {key}{path if arguments.output else path.stem.rpartition('-')[2]}")


@command("fit-mean", example="twmd fit-mean corpus.txt --model roberta-base")
@files
@declare.columns
@model
@_key("revision")
@_key("adapter")
@_key("truncation")
@_key("dtype")
@declare.output("Default: where background:HASH is looked for.")
@declare.placement
def fit_mean_command(arguments: Arguments) -> int:
    """Fit the mean vector that centering=background subtracts, and print the value to use.

    FILE holds texts, one per line, or is a table.
    """
    check_folder(arguments.output)
    spec = _encoder_spec(arguments)
    texts = read_texts(arguments.files, columns_of(arguments))
    from twmd_registry.encode.mean_vectors import MEAN_VECTOR, read_background
    from twmd_registry.engine.backends import TokenAlignmentBackend
    from twmd_registry.models.fitted import save

    backend = TokenAlignmentBackend(spec, options_of(arguments))
    with progress_bar("texts") as progress:
        content = backend.fit_background(texts, progress)
    path = save(MEAN_VECTOR, content, arguments.output or MEAN_VECTOR.home)
    about = read_background(path).about
    print(f"fitted on {about['texts']} texts, {about['tokens']} tokens")
    _print_use("centering=background:", path, arguments)
    return 0


@command("fit-idf", example="twmd fit-idf corpus.txt --model roberta-base")
@files
@declare.columns
@model
@_key("revision")
@_key("truncation")
@declare.output("Default: where background:HASH is looked for.")
@declare.placement
def fit_idf_command(arguments: Arguments) -> int:
    """Count in how many texts each token occurs, for idf=background, and print the value to use.

    FILE holds texts, one per line, or is a table.
    """
    check_folder(arguments.output)
    spec = _encoder_spec(arguments)
    texts = read_texts(arguments.files, columns_of(arguments))
    from twmd_registry.encode.idf import FREQUENCIES
    from twmd_registry.engine.backends import TokenAlignmentBackend
    from twmd_registry.models.fitted import save

    backend = TokenAlignmentBackend(spec, options_of(arguments))
    with progress_bar("texts") as progress:
        content = backend.fit_idf(texts, progress)
    path = save(FREQUENCIES, content, arguments.output or FREQUENCIES.home)
    print(f"counted over {len(texts)} texts")
    _print_use("idf=background:", path, arguments)
    return 0


@command("fit-baseline", lexical=(), example="twmd fit-baseline bertscore_centered corpus.txt --set centering=none")
@declare.metric(name for name in MetricName if name is not MetricName.ENSEMBLE)
@files
@declare.columns
@declare.number("--pairs", 10_000, "How many pairs (default: 10000).")
@declare.seed("Of the draw", 0)
@declare.output("Default: where baseline=HASH is looked for.")
@declare.settings
@declare.run_options
def fit_baseline_command(arguments: Arguments) -> int:
    """Score random pairs of texts, for baseline=HASH: scores on a scale where unrelated texts are 0.

    FILE holds texts, one per line, or is a table.
    """
    check_folder(arguments.output)
    texts = read_texts(arguments.files, columns_of(arguments))
    from twmd_registry.engine.baseline import BASELINE
    from twmd_registry.models.fitted import save

    with progress_bar("pairs", arguments.pairs) as progress:
        (scorer,) = make_scorers(arguments.asked, options_of(arguments))
        content = scorer.fit_baseline(texts, arguments.pairs, arguments.seed, progress)
    path = save(BASELINE, content, arguments.output or BASELINE.home)
    print(path.read_text(encoding="utf-8"), end="")
    _print_use("baseline=", path, arguments)
    return 0
