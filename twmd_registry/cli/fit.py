"""``twmd fit-mean``, ``twmd fit-idf``, ``twmd fit-baseline`` and ``twmd train``."""

from __future__ import annotations

import argparse
from pathlib import Path

from twmd_registry.cli.files import read_texts
from twmd_registry.cli.options import columns_of, make_scorers, options_of
from twmd_registry.cli.terminal import progress_bar
from twmd_registry.errors import SpecError
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.spec import make_spec


def run_fit_mean(arguments: argparse.Namespace) -> int:
    """Fit a mean vector over every text of the files, write it, print how to name it."""
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


def run_fit_idf(arguments: argparse.Namespace) -> int:
    """Count document frequencies over every text of the files, write them, print how to name them."""
    spec = make_spec(MetricName.SBERT, model=arguments.model, revision=arguments.revision, truncation=arguments.truncation, layer=0, centering="none")
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


def run_fit_baseline(arguments: argparse.Namespace) -> int:
    """Score random pairs of the files' texts, write the means, print how to name them."""
    texts = read_texts(arguments.files, columns_of(arguments))
    from twmd_registry.engine.baseline import BASELINE
    from twmd_registry.models.fitted import save

    (scorer,) = make_scorers(arguments.asked, options_of(arguments))
    with progress_bar("pairs", arguments.pairs) as progress:
        content = scorer.fit_baseline(texts, arguments.pairs, arguments.seed, progress)
    path = save(BASELINE, content, arguments.output or BASELINE.home)
    print(path.read_text(encoding="utf-8"), end="")
    print(f"use --set baseline={path if arguments.output else path.stem.rpartition('-')[2]}")
    return 0


def run_train(arguments: argparse.Namespace) -> int:
    """Train the STS benchmark adapter.

    Raises:
        SpecError: ``--data`` is not ``stsb:DIR``.
    """
    from twmd_registry.train.stsb import train_stsb

    form, _, folder = arguments.data.partition(":")
    if form != arguments.task or not folder:
        raise SpecError(f"--data {arguments.data}: expected {arguments.task}:DIR, a folder with train.csv and dev.csv.")
    result = train_stsb(Path(folder).expanduser(), arguments.output)
    print(f"Pearson on dev {result.pearson:.4f}\nuse --set adapter={arguments.output}\nsignature {result.signature}")
    return 0
