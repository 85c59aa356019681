"""``twmd reproduce``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli.declare import (
    FOLDER,
    INPUT_FOLDER,
    RESULT_FORMATS,
    Arguments,
    argument,
    command,
    option,
    output_format,
    run_options,
)
from twmd_registry.cli.diagnose import WORDS, diagnosis_dict, write_diagnosis
from twmd_registry.cli.files import check_folder, write_file
from twmd_registry.cli.output import as_json
from twmd_registry.cli.requested import options_of
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.registry.names import EMBEDDED_MODEL

if TYPE_CHECKING:
    from twmd_registry.papers.experiment import Experiment
    from twmd_registry.papers.reproduction import Reproduction
    from twmd_registry.registry.options import RunOptions

SUFFIXES = {"text": "txt", "markdown": "md", "latex": "tex", "tsv": "tsv"}
"""From a word of ``--format`` to the suffix of `twmd_registry.metaeval.table.FORMATS`; json has no tables."""


@command("reproduce", example="twmd reproduce twmd-table2 --data-dir data/ -o out/")
@argument("table", metavar="TABLE")
@option(
    "--data-dir",
    type=INPUT_FOLDER,
    required=True,
    metavar="DIR",
    help="Holds wmt/wmt17.jsonl, sts/STS12 and so on, as the table needs.",
)
@option("--model", default=EMBEDDED_MODEL, metavar="MODEL", help=f"Default: {EMBEDDED_MODEL}.")
@option(
    "--layer",
    type=int,
    metavar="K",
    help="Hidden state (default: the paper's for its models, else the preset's or by rule).",
)
@output_format(*RESULT_FORMATS)
@option(
    "-o", "--output", type=FOLDER, metavar="DIR", help="Write the table (text, Markdown, LaTeX, TSV) and signatures."
)
@run_options
def reproduce_command(arguments: Arguments) -> int:
    """Compute a paper's table or figure again with any model, beside the paper's own numbers.

    TABLE is one of twmd-table1 to 9, twmd-figure1 to 6, twmd-appendix-b (Chen et al. 2020); moverscore-table1, 3, 5, 6,
    moverscore-figure2, 3 (Zhao et al. 2019); stsscore-table1 to 4, stsscore-auc (Herbold 2024).

    Raises:
        SpecError: There is no such table or figure; the message lists those there are.
        FileError: The folder to write cannot be written.
    """
    from twmd_registry.papers.experiment import read_experiment
    from twmd_registry.papers.pictures import draw_pictures
    from twmd_registry.papers.run import reproduce
    from twmd_registry.report.figures import require_matplotlib

    experiment, options = read_experiment(arguments.table), options_of(arguments)
    check_folder(arguments.output)
    if arguments.output and (experiment.picture or experiment.centerings):
        require_matplotlib()
    if experiment.centerings:
        return _run_diagnosis(experiment, arguments, options)
    with progress_bar() as progress:
        (found,) = reproduce(
            [experiment],
            arguments.data_dir,
            model=arguments.model,
            layer=arguments.layer,
            options=options,
            progress=progress,
        )
    if arguments.output:
        write_tables({experiment.name: found}, arguments.output)
        signatures = "".join(
            f"{one.label}\t{signature}\n" for one, signature in zip(found.settings, found.signatures, strict=True)
        )
        write_file(arguments.output / f"{experiment.name}-signatures.tsv", signatures.encode())
        for name, content in draw_pictures(found, options):
            write_file(arguments.output / name, content)
    form = arguments.format
    say(as_json(found.as_dict()) if form == "json" else found.text(SUFFIXES[form]))
    return 0


def write_tables(found: Mapping[str, Reproduction], folder: Path) -> None:
    """Write tables in every format, by the files' names."""
    from twmd_registry.metaeval.table import FORMATS

    for stem, one in found.items():
        for suffix in FORMATS:
            write_file(folder / f"{stem}.{suffix}", f"{one.text(suffix)}\n".encode())


def _run_diagnosis(experiment: Experiment, arguments: Arguments, options: RunOptions) -> int:
    """Measure how similar words are in every layer, and set the properties beside those that the paper names."""
    from twmd_registry.metaeval.diagnose import Property
    from twmd_registry.metaeval.table import FORMATS, TextTable, as_text
    from twmd_registry.papers.reproduction import short_name
    from twmd_registry.papers.run import diagnose_words

    with progress_bar("texts") as progress:
        found = diagnose_words(
            experiment, arguments.data_dir, options, model=arguments.model, layer=arguments.layer, progress=progress
        )
    if arguments.output:
        write_diagnosis(found._replace(model=short_name(found.model)), arguments.output, experiment.name)
    printed = {
        (centering, one): word
        for centering, words in experiment.properties.items()
        for one, word in zip(Property, words, strict=True)
    }
    if arguments.format == "json":
        content = diagnosis_dict(found)
        for verdict in content["verdicts"]:
            verdict["paper"] = printed.get((verdict["centering"], verdict["property"]))
        say(as_json(content))
        return 0
    names = list(found.rows[0].similarities)
    cosines = [
        (str(row.centering), str(row.layer), *(f"{row.similarities[name].mean:.3f}" for name in names))
        for row in found.rows
    ]
    about = f"{experiment.about} {found.texts} texts, {found.words} words. Here: {short_name(found.model)}."
    tables = [TextTable(about, ("centering", "layer", *names), cosines)]
    if experiment.properties:
        rows: list[tuple[str, ...]] = [
            (str(one.centering), str(one.property), WORDS[one.holds], printed.get((one.centering, one.property), "-"))
            for one in found.verdicts
        ]
        tables.append(TextTable("Properties", ("centering", "property", "here", "paper"), rows))
    say("\n\n".join(as_text(table, FORMATS[SUFFIXES[arguments.format]]) for table in tables))
    return 0
