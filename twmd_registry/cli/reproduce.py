"""``twmd reproduce``."""

from __future__ import annotations

import argparse

from twmd_registry.cli.figures import FIGURES
from twmd_registry.cli.files import write_file
from twmd_registry.cli.score import progress_bar
from twmd_registry.metaeval.reproduce.run import reproduce
from twmd_registry.registry.options import RunOptions


def run_reproduce(arguments: argparse.Namespace) -> int:
    """Compute a paper's table or figure again, print it beside the paper's, and write it where that was asked for."""
    if arguments.table in FIGURES:
        return FIGURES[arguments.table](arguments)
    options = RunOptions(device=arguments.device, batch_tokens=arguments.batch_tokens)
    with progress_bar() as progress:
        found = reproduce(arguments.table, arguments.data_dir, model=arguments.model, layer=arguments.layer, options=options, progress=progress)
    if arguments.output:
        forms = {
            "txt": f"{found.text()}\n\n{found.sentence}",
            "md": f"{found.markdown()}\n\n{found.sentence}",
            "tex": found.latex(),
            "tsv": found.tsv(),
        }
        for suffix, content in forms.items():
            write_file(arguments.output / f"{found.table}.{suffix}", f"{content}\n".encode())
        signatures = "".join(f"{row}\t{signature}\n" for row, signature in found.signatures.items())
        write_file(arguments.output / f"{found.table}-signatures.tsv", signatures.encode())
    print(f"{found.text()}\n\n{found.sentence}")
    return 0
