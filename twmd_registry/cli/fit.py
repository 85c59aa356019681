"""``twmd fit-mean``, ``twmd fit-idf`` and ``twmd fit-baseline``: commands that fit a part of a specification to
texts.
"""

from __future__ import annotations

from twmd_registry.cli.declare import (
    FOLDER,
    INPUT,
    POSITIVE,
    Arguments,
    Declare,
    MetricParameter,
    argument,
    columns,
    command,
    device,
    option,
    run_options,
    seed,
    settings,
)
from twmd_registry.cli.files import read_texts
from twmd_registry.cli.requested import columns_of, make_scorers, options_of
from twmd_registry.cli.terminal import progress_bar
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.spec import make_spec

files = argument("files", nargs=-1, required=True, type=INPUT, metavar="FILE...")
model = option("--model", default="embedded", metavar="MODEL", help="A Hub id, a folder, or 'embedded' (the default).")


def _output(key: str) -> Declare:
    return option("-o", "--output", type=FOLDER, metavar="DIR", help=f"Default: where {key} is looked for.")


def _key(name: str) -> Declare:
    return option(f"--{name}", metavar="VALUE", help="As the key of the specification.")


@command("fit-mean", example="twmd fit-mean corpus.txt --model roberta-base")
@files
@columns
@model
@_key("revision")
@_key("adapter")
@_key("truncation")
@_key("dtype")
@_output("background:HASH")
@device
def fit_mean_command(arguments: Arguments) -> int:
    """Fit the mean vector that centering=background subtracts, and print the value to use.

    FILE holds texts, one per line, or is a table.
    """
    keys = {name: getattr(arguments, name) for name in ("revision", "adapter", "truncation", "dtype")}
    spec = make_spec(MetricName.SBERT, model=arguments.model, layer=0, centering="none", **keys)
    texts = read_texts(arguments.files, columns_of(arguments))
    from twmd_registry.encode.mean_vectors import MEAN_VECTOR, read_background
    from twmd_registry.engine.backends import TokenAlignmentBackend
    from twmd_registry.models.fitted import save

    backend = TokenAlignmentBackend(spec, options_of(arguments))
    with progress_bar("texts") as progress:
        content = backend.fit_background(texts, progress)
    path = save(MEAN_VECTOR, content, arguments.output or MEAN_VECTOR.home)
    found = read_background(path)
    print(f"fitted on {found.about['texts']} texts, {found.about['tokens']} tokens")
    print(f"use --set centering=background:{path if arguments.output else found.hash}")
    return 0


@command("fit-idf", example="twmd fit-idf corpus.txt --model roberta-base")
@files
@columns
@model
@_key("revision")
@_key("truncation")
@_output("background:HASH")
@device
def fit_idf_command(arguments: Arguments) -> int:
    """Count in how many texts each token occurs, for idf=background, and print the value to use.

    FILE holds texts, one per line, or is a table.
    """
    spec = make_spec(
        MetricName.SBERT,
        model=arguments.model,
        revision=arguments.revision,
        truncation=arguments.truncation,
        layer=0,
        centering="none",
    )
    texts = read_texts(arguments.files, columns_of(arguments))
    from twmd_registry.encode.idf import FREQUENCIES
    from twmd_registry.engine.backends import TokenAlignmentBackend
    from twmd_registry.models.fitted import save

    backend = TokenAlignmentBackend(spec, options_of(arguments))
    with progress_bar("texts") as progress:
        content = backend.fit_idf(texts, progress)
    path = save(FREQUENCIES, content, arguments.output or FREQUENCIES.home)
    print(f"counted over {len(texts)} texts")
    print(f"use --set idf=background:{path if arguments.output else path.stem.rpartition('-')[2]}")
    return 0


@command("fit-baseline", lexical=(), example="twmd fit-baseline bertscore_centered corpus.txt --set centering=none")
@argument("metric", type=MetricParameter(one for one in MetricName if one is not MetricName.ENSEMBLE), metavar="METRIC")
@files
@columns
@option("--pairs", type=POSITIVE, default=10_000, metavar="N", help="How many pairs (default: 10000).")
@seed("Of the draw", 0)
@_output("baseline=HASH")
@settings
@run_options
def fit_baseline_command(arguments: Arguments) -> int:
    """Score random pairs of texts, for baseline=HASH: scores on a scale where unrelated texts are 0.

    FILE holds texts, one per line, or is a table.
    """
    texts = read_texts(arguments.files, columns_of(arguments))
    from twmd_registry.engine.baseline import BASELINE
    from twmd_registry.models.fitted import save

    with progress_bar("pairs", arguments.pairs) as progress:
        (scorer,) = make_scorers(arguments.asked, options_of(arguments))
        content = scorer.fit_baseline(texts, arguments.pairs, arguments.seed, progress)
    path = save(BASELINE, content, arguments.output or BASELINE.home)
    print(path.read_text(encoding="utf-8"), end="")
    print(f"use --set baseline={path if arguments.output else path.stem.rpartition('-')[2]}")
    return 0
