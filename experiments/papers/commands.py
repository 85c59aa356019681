"""``study``, ``reproduce`` and ``diagnose``: recompute what the papers printed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import rich_click as click

from experiments.papers.experiment import Experiment, read_experiment
from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import read_texts
from twmd_registry.cli.metrics import options_of, parse_keys
from twmd_registry.cli.output import SUFFIXES, as_json, write_forms
from twmd_registry.cli.terminal import printed, progress_bar, say
from twmd_registry.comparison.text_table import MISSING, UNDEFINED, TextTable, as_text
from twmd_registry.errors import FileError, InputError, SpecError
from twmd_registry.judgments.sets import FORMATS, HUB, check_named, read_rated
from twmd_registry.registry.bert_score import TABLE
from twmd_registry.registry.names import EMBEDDED_MODEL
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.paths import write_file

if TYPE_CHECKING:
    from experiments.papers.diagnosis import Diagnosis

TEXTS = f"TEXTS are lines of text, a table, or DATA. {declare.RATED}"


def _texts(value: str) -> Path | str:
    """Return a file with texts as a path, or rated data as a name."""
    form, colon, _ = value.partition(":")
    if value in HUB or (colon and form in FORMATS):
        check_named(value)
        return value
    return declare.existing_path(value)


WORDS = {True: "pass", False: "fail", None: UNDEFINED}


@command("diagnose", example="python -m experiments diagnose corpus.txt --set model=roberta-base -o out/", note=TEXTS)
@declare.argument("texts", type=declare.CheckedPath(_texts), metavar="TEXTS")
@declare.columns
@declare.keys("model")
@declare.seed("Seed of the draw of word pairs")
@declare.output_format(*declare.RESULT_FORMATS)
@declare.output("Write the numbers (CSV) and the figure (PNG, SVG).")
@declare.placement
def diagnose_command(arguments: Arguments) -> int:
    """Measure the similarity of a model's word vectors, layer by layer, for every centering (TWMD paper, section 5,
    Figures 1 and 2).
    """
    options, model = options_of(arguments), parse_keys(arguments, ["model"]).get("model", "embedded")
    if isinstance(arguments.texts, Path):
        texts = read_texts([arguments.texts], arguments)
    else:
        rated = read_rated(arguments.texts)
        references = [text for texts in rated.references for text in ([texts] if isinstance(texts, str) else texts)]
        texts = list(dict.fromkeys([*rated.predictions, *references]))
    from experiments.papers.diagnosis import diagnose
    from twmd_registry.report.figures import require_matplotlib

    if arguments.output:
        require_matplotlib()
    with progress_bar("texts") as progress:
        diagnosis = diagnose(model, texts, options, seed=arguments.seed, progress=progress)
    return _report_diagnosis(diagnosis, arguments, "diagnosis", diagnosis.model)


def _report_diagnosis(
    diagnosis: Diagnosis,
    arguments: Arguments,
    stem: str,
    model: str,
    *,
    about: str = "",
    paper: Mapping[str, Sequence[str]] | None = None,
) -> int:
    """Print a diagnosis next to a paper's verdicts by centering; write its numbers (CSV) and figure."""
    from experiments.papers.diagnosis import PROPERTIES

    content, form = diagnosis.as_dict(), arguments.format
    heads, verdicts = ("holds", "centering", "property", *["paper"] * bool(paper), "evidence"), content["verdicts"]
    for verdict in verdicts if paper is not None else ():
        words = (paper or {}).get(verdict["centering"], ())
        verdict["paper"] = dict(zip(PROPERTIES.values(), words, strict=False)).get(verdict["property"])
    rows = [
        (centering, str(layer), *(_format_mean(estimate["mean"], estimate["error"]) for estimate in estimates.values()))
        for centering, layer, estimates in diagnosis.rows
    ]
    title = f"{about}{model}, {diagnosis.texts} texts, {diagnosis.words} words"
    tables = [TextTable(title, ("centering", "layer", *(f"{name} (se)" for name in PROPERTIES)), rows)]
    if form != "tsv" or paper:
        shown = [verdict | {"holds": WORDS[verdict["holds"]]} for verdict in verdicts]
        lines = [tuple(str(verdict[head] or MISSING) for head in heads) for verdict in shown]
        tables.append(TextTable("properties", heads, lines))
    text = as_json(content) if form == "json" else "\n\n".join(as_text(table, SUFFIXES[form]) for table in tables)
    with printed(text):
        if arguments.output:
            _write_diagnosis(replace(diagnosis, model=model), arguments.output, stem)
    return 0


def _format_mean(mean: float, error: float) -> str:
    if math.isnan(mean):
        return UNDEFINED
    return f"{mean:.3f} ({'-' if math.isnan(error) else f'{error:.3f}'})"


def _write_diagnosis(diagnosis: Diagnosis, folder: Path, stem: str) -> None:
    """Write the numbers as CSV, and the figure, to files with this stem."""
    import numpy as np

    from experiments.papers.diagnosis import Similarity
    from experiments.papers.pictures import curves
    from twmd_registry.report.figures import SUFFIXES, as_csv

    numbers = [f"{name}{field}" for name in get_args(Similarity) for field in ("", "_error", "_pairs", "_left_out")]
    rows = (
        [centering, layer, *(number for estimate in estimates.values() for number in estimate.values())]
        for centering, layer, estimates in diagnosis.rows
    )
    write_file(folder / f"{stem}.csv", as_csv(["centering", "layer", *numbers], rows))
    layers = np.arange(diagnosis.estimates.shape[1])
    panels = {
        str(centering): {
            str(name): (layers, estimates[:, s]["mean"], estimates[:, s]["error"])
            for s, name in enumerate(get_args(Similarity))
        }
        for centering, estimates in zip(diagnosis.centerings, diagnosis.estimates, strict=True)
    }
    for suffix in SUFFIXES:
        write_file(folder / f"{stem}{suffix}", curves(panels, ("layer", "cosine"), diagnosis.model, suffix))


MEMBERS = {"stsscore": "STSScore", "bertscore": "BERTScore", "sbert": "S-BERT"}
"""The paper's row whose metric each option replaces."""
MEMBER = "A metric with keys, as a member of an ensemble (default: the paper's, on the embedded model)."
STUDIED = ("table1", "table2", "table3", "table4", "auc")


def _data_dir(about: str, **settings: bool) -> declare.Declare:
    return declare.option("--data-dir", "DIR", about, type=declare.INPUT_FOLDER, **settings)


@command("study", example="python -m experiments study stsscore --data-dir data/ -o out/")
@declare.argument("paper", type=click.Choice(["stsscore"]))
@_data_dir("Folder with any of stsb/, mrpc/, qqp/, wmt22/.")
@declare.flag("--hub", "Read data missing from DIR from the Hugging Face Hub.")
@declare.output("Tables (text, Markdown, LaTeX, TSV), figures (PNG, SVG, CSV).", required=True)
@declare.output_format(*declare.RESULT_FORMATS)
@declare.option("--stsscore", "METRIC", MEMBER)
@declare.option("--bertscore", "METRIC", MEMBER)
@declare.option("--sbert", "METRIC", MEMBER)
@declare.run_options
def study_command(arguments: Arguments) -> int:
    """Repeat a paper's analysis: its tables next to the paper's numbers, and its figures. The paper is Herbold 2024
    (stsscore).
    """
    if not arguments.data_dir and not arguments.hub:
        raise InputError("no data: pass --data-dir DIR, --hub, or both.")
    from experiments.papers.run import draw_data_sets, reproduce
    from twmd_registry.report.figures import require_matplotlib

    require_matplotlib()
    folder, options = arguments.output, options_of(arguments)
    if folder.is_dir() and any(folder.iterdir()):  # otherwise files of an earlier run on other data might remain
        raise FileError(f"{folder} is not empty: choose a new folder, so all its files are from one run.")
    members = {row: metric for option, row in MEMBERS.items() if (metric := getattr(arguments, option))}
    experiments = [read_experiment(f"{arguments.paper}-{name}", members) for name in STUDIED]
    with progress_bar() as progress:
        computed = reproduce(experiments, arguments.data_dir, hub=arguments.hub, options=options, progress=progress)
    tables = dict(zip(STUDIED, computed, strict=True))
    rated = {name: next(iter(groups.values())) for name, groups in tables["table1"].rated.items()}
    sizes = "".join(f"{name}\t{len(segments.ratings)}\n" for name, segments in rated.items())
    rows: dict[str, str] = {}
    for name, table in tables.items():
        write_forms(folder, name, table.text)
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


@command("reproduce", example="python -m experiments reproduce twmd-table2 --data-dir data/ -o out/")
@declare.argument("table", metavar="TABLE")
@_data_dir("Folder with wmt/wmt17.jsonl, sts/STS12 and so on, as the table needs.", required=True)
@declare.keys("model", "layer")
@declare.output_format(*declare.RESULT_FORMATS)
@declare.output("Write the table (text, Markdown, LaTeX, TSV) and signatures.")
@declare.run_options
def reproduce_command(arguments: Arguments) -> int:
    """Compute a paper's table or figure again with any model, next to the paper's own numbers.

    TABLE is one of twmd-table1 to 9, twmd-figure1 to 6, twmd-appendix-b (Chen et al. 2020); moverscore-table1, 2, 3, 5,
    6, 8, moverscore-figure2, 3 (Zhao et al. 2019); stsscore-table1 to 4, stsscore-auc (Herbold 2024).
    """
    from experiments.papers.run import draw_pictures, reproduce
    from twmd_registry.report.figures import require_matplotlib

    experiment, options, folder = read_experiment(arguments.table), options_of(arguments), arguments.output
    encoder = _encoder_of(arguments)
    if folder and (experiment.picture or experiment.centerings):
        require_matplotlib()
    if experiment.centerings:
        return _run_diagnosis(experiment, arguments, options)
    with progress_bar() as progress:
        (table,) = reproduce([experiment], arguments.data_dir, options=options, progress=progress, **encoder)
    if folder:
        write_forms(folder, experiment.name, table.text)
        signed = zip(table.settings, table.signatures, strict=True)
        signatures = "".join(f"{setting.label}\t{signature}\n" for setting, signature in signed)
        write_file(folder / f"{experiment.name}-signatures.tsv", signatures.encode())
        for name, content in draw_pictures(table, options):
            write_file(folder / name, content)
    form = arguments.format
    say(as_json(table.as_dict()) if form == "json" else table.text(SUFFIXES[form]))
    return 0


def _encoder_of(arguments: Arguments) -> dict[str, Any]:
    """Return the model and its hidden state; by default the paper's, otherwise the preset's or the rule's."""
    keys = parse_keys(arguments, ["model", "layer"])
    layer = keys.get("layer")
    if layer is not None and not layer.lstrip("-").isdecimal():
        raise SpecError(f"--set layer={layer}: expected the number of a hidden state.")
    return {"model": keys.get("model", EMBEDDED_MODEL), "layer": None if layer is None else int(layer)}


def _run_diagnosis(experiment: Experiment, arguments: Arguments, options: RunOptions) -> int:
    """Measure the similarity of words in every layer, and print its properties next to the paper's."""
    from experiments.papers.reproduction import short_name
    from experiments.papers.run import diagnose_words

    encoder = _encoder_of(arguments)
    with progress_bar("texts") as progress:
        diagnosis = diagnose_words(experiment, arguments.data_dir, options, progress=progress, **encoder)
    name, about = short_name(diagnosis.model), f"{experiment.about} Here: "
    return _report_diagnosis(diagnosis, arguments, experiment.name, name, about=about, paper=experiment.properties)


@command("bert-score", example="python -m experiments bert-score")
def bert_score_command(_arguments: Arguments) -> int:
    """Write the packaged table of bert_score's figures again, from an installed bert_score 0.3.13."""
    from experiments.papers.bert_score import read_figures, write_table

    write_file(TABLE, write_table(read_figures()).encode())
    print(f"wrote {TABLE}")
    return 0
