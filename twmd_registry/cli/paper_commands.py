"""``twmd study`` and ``twmd reproduce``: the papers' tables and figures, computed again."""

from __future__ import annotations

from dataclasses import replace

import rich_click as click

from twmd_registry.cli import declare
from twmd_registry.cli.agreement_commands import WORDS, write_diagnosis
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import options_of
from twmd_registry.cli.output import STYLES, SUFFIXES, as_json, write_file, write_forms
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.errors import FileError, InputError
from twmd_registry.metaeval.side_by_side import FORMATS
from twmd_registry.papers.experiment import Experiment, read_experiment
from twmd_registry.registry.names import EMBEDDED_MODEL
from twmd_registry.registry.options import RunOptions

MEMBERS = {"stsscore": "STSScore", "bertscore": "BERTScore", "sbert": "S-BERT"}
"""By option, the paper's row whose metric it replaces."""
MEMBER = "A metric with keys, as a member of an ensemble (default: the paper's, on the embedded model)."
STUDIED = ("table1", "table2", "table3", "table4", "auc")


def _data_dir(about: str, **settings: bool) -> declare.Declare:
    return declare.option("--data-dir", "DIR", about, type=declare.INPUT_FOLDER, **settings)


@command("study", example="twmd study stsscore --data-dir data/ -o out/")
@declare.argument("paper", type=click.Choice(["stsscore"]))
@_data_dir("Holds stsb/, mrpc/, qqp/, wmt22/, as far as you have them.")
@declare.flag("--hub", "Read from the Hugging Face Hub what DIR does not hold.")
@declare.output("Tables (text, Markdown, LaTeX, TSV), figures (PNG, SVG, CSV).", required=True)
@declare.output_format(*declare.RESULT_FORMATS)
@declare.option("--stsscore", "METRIC", MEMBER)
@declare.option("--bertscore", "METRIC", MEMBER)
@declare.option("--sbert", "METRIC", MEMBER)
@declare.run_options
def study_command(arguments: Arguments) -> int:
    """Repeat a paper's analysis: its tables beside the paper's numbers, and its figures. The paper is Herbold 2024
    (stsscore).
    """
    if not arguments.data_dir and not arguments.hub:
        raise InputError("no data: give --data-dir DIR, --hub, or both.")
    from twmd_registry.papers.pictures import draw_data_sets
    from twmd_registry.papers.run import reproduce
    from twmd_registry.report.figures import require_matplotlib

    require_matplotlib()
    folder, options = arguments.output, options_of(arguments)
    if folder.is_dir() and any(folder.iterdir()):  # files of a run on other data would stay beside the new ones
        raise FileError(f"{folder} is not empty: give a new folder, so that all files in it are of one run.")
    members = {row: given for option, row in MEMBERS.items() if (given := getattr(arguments, option))}
    experiments = [read_experiment(f"{arguments.paper}-{name}", members) for name in STUDIED]
    with progress_bar() as progress:
        computed = reproduce(experiments, arguments.data_dir, hub=arguments.hub, options=options, progress=progress)
    tables = dict(zip(STUDIED, computed, strict=True))
    rated = {name: next(iter(groups.values())) for name, groups in tables["table1"].rated.items()}
    sizes = "".join(f"{name}\t{len(own.ratings)}\n" for name, own in rated.items())
    rows: dict[str, str] = {}
    for name, table in tables.items():
        write_forms(folder, name, {suffix: table.text(suffix) for suffix in FORMATS})
        for setting, signature in zip(table.settings, table.signatures, strict=True):
            rows.setdefault(signature, setting.row)
    signatures = "".join(f"{row}\t{signature}\n" for signature, row in rows.items())
    write_file(folder / "data.txt", sizes.encode())
    write_file(folder / "signatures.txt", signatures.encode())
    for name, content in draw_data_sets(tables):
        write_file(folder / name, content)
    if arguments.format == "json":
        say(as_json({name: table.as_dict() for name, table in tables.items()}))
        return 0
    say("\n\n".join(table.text(SUFFIXES[arguments.format]) for table in tables.values()))
    print(f"\n{signatures}", end="")
    return 0


@command("reproduce", example="twmd reproduce twmd-table2 --data-dir data/ -o out/")
@declare.argument("table", metavar="TABLE")
@_data_dir("Holds wmt/wmt17.jsonl, sts/STS12 and so on, as the table needs.", required=True)
@declare.option("--model", "MODEL", f"Default: {EMBEDDED_MODEL}.", default=EMBEDDED_MODEL)
@declare.option(
    "--layer", "K", "Hidden state (default: the paper's for its models, else the preset's or by rule).", type=int
)
@declare.output_format(*declare.RESULT_FORMATS)
@declare.output("Write the table (text, Markdown, LaTeX, TSV) and signatures.")
@declare.run_options
def reproduce_command(arguments: Arguments) -> int:
    """Compute a paper's table or figure again with any model, beside the paper's own numbers.

    TABLE is one of twmd-table1 to 9, twmd-figure1 to 6, twmd-appendix-b (Chen et al. 2020); moverscore-table1, 3, 5, 6,
    moverscore-figure2, 3 (Zhao et al. 2019); stsscore-table1 to 4, stsscore-auc (Herbold 2024).
    """
    from twmd_registry.papers.pictures import draw_pictures
    from twmd_registry.papers.run import reproduce
    from twmd_registry.report.figures import require_matplotlib

    experiment, options, folder = read_experiment(arguments.table), options_of(arguments), arguments.output
    if folder and (experiment.picture or experiment.centerings):
        require_matplotlib()
    if experiment.centerings:
        return _run_diagnosis(experiment, arguments, options)
    encoder = {"model": arguments.model, "layer": arguments.layer, "options": options}
    with progress_bar() as progress:
        (table,) = reproduce([experiment], arguments.data_dir, progress=progress, **encoder)
    if folder:
        write_forms(folder, experiment.name, {suffix: table.text(suffix) for suffix in FORMATS})
        signed = zip(table.settings, table.signatures, strict=True)
        signatures = "".join(f"{setting.label}\t{signature}\n" for setting, signature in signed)
        write_file(folder / f"{experiment.name}-signatures.tsv", signatures.encode())
        for name, content in draw_pictures(table, options):
            write_file(folder / name, content)
    form = arguments.format
    say(as_json(table.as_dict()) if form == "json" else table.text(SUFFIXES[form]))
    return 0


def _run_diagnosis(experiment: Experiment, arguments: Arguments, options: RunOptions) -> int:
    """Measure how similar words are in every layer, and print the properties beside the paper's."""
    from twmd_registry.metaeval.diagnosis import PROPERTIES
    from twmd_registry.metaeval.side_by_side import TextTable, as_text
    from twmd_registry.papers.reproduction import short_name
    from twmd_registry.papers.run import diagnose_words

    encoder = {"model": arguments.model, "layer": arguments.layer}
    with progress_bar("texts") as progress:
        diagnosis = diagnose_words(experiment, arguments.data_dir, options, progress=progress, **encoder)
    if arguments.output:
        write_diagnosis(replace(diagnosis, model=short_name(diagnosis.model)), arguments.output, experiment.name)
    printed = {
        (centering, similarity): word
        for centering, words in experiment.properties.items()
        for similarity, word in zip(PROPERTIES, words, strict=True)
    }
    if arguments.format == "json":
        content = diagnosis.as_dict()
        for verdict, key in zip(content["verdicts"], diagnosis.verdicts, strict=True):
            verdict["paper"] = printed.get(key)
        say(as_json(content))
        return 0
    cosines = [
        (str(centering), str(layer), *(f"{own['mean']:.3f}" for own in estimates.values()))
        for centering, layer, estimates in diagnosis.rows
    ]
    counts = f"{diagnosis.texts} texts, {diagnosis.words} words. Here: {short_name(diagnosis.model)}"
    tables = [TextTable(f"{experiment.about} {counts}.", ("centering", "layer", *PROPERTIES), cosines)]
    if experiment.properties:
        rows: list[tuple[str, ...]] = [
            (str(key[0]), PROPERTIES[key[1]], WORDS[holds], printed.get(key, "-"))
            for key, (holds, _) in diagnosis.verdicts.items()
        ]
        tables.append(TextTable("Properties", ("centering", "property", "here", "paper"), rows))
    say("\n\n".join(as_text(table, STYLES[arguments.format]) for table in tables))
    return 0
