"""``twmd correlate``, ``tune``, ``diagnose``, ``study`` and ``reproduce``: metrics beside human ratings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import rich_click as click
from click import get_current_context
from click.core import ParameterSource

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import columns_of, options_of, parse_assignments, read_texts
from twmd_registry.cli.output import SUFFIXES, as_json, write_forms
from twmd_registry.cli.terminal import HEADER, complain, printed, progress_bar, say
from twmd_registry.errors import FileError, InputError, SpecError, warn
from twmd_registry.judgments.mt_metrics_eval import read_divisions, read_official
from twmd_registry.judgments.sets import content_of, read_all_rated, read_rated, title_of
from twmd_registry.metaeval.side_by_side import MISSING, UNDEFINED, as_text
from twmd_registry.papers.experiment import Experiment, read_experiment
from twmd_registry.registry.fingerprint import known_name
from twmd_registry.registry.keys import KEYS, Value, key
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import EMBEDDED_MODEL, SEGMENT_LEXICAL, STATISTICS, MetricName, Statistic
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.own_presets import PRESET_FILE
from twmd_registry.registry.paths import write_file
from twmd_registry.registry.presets import HASHES, name_preset

if TYPE_CHECKING:
    from twmd_registry.judgments.rated import RatedSegments
    from twmd_registry.metaeval.diagnosis import Diagnosis
    from twmd_registry.metaeval.study import StudyResult
    from twmd_registry.metaeval.tasks import TaskResult
    from twmd_registry.metaeval.tune import Trial


COMPARED = (
    "Metrics, 'METRIC;KEY=VALUE;...' with keys of their own, signatures, bleu, chrf, chrf++, rouge1, rouge2, "
    "rougeL; others are tested against the first."
)
RESAMPLES, TRIALS = (
    "Resamples of the bootstrap intervals; 0 for none",
    "Trials of a paired permutation test against the first metric",
)
OFFICIAL = "Also compare the metrics whose scores the shared task has published beside the data (mte:FOLDER)."
TASK = (
    "Average as the metrics shared task of wmt22, wmt23 or wmt24 ranked metrics, over the language pairs that there "
    "are; in place of --correlation, --by, --level and (but for wmt22) --trials."
)
compared = declare.metrics(SEGMENT_LEXICAL, COMPARED, required=True)
CORRELATIONS = f"{', '.join(STATISTICS)} (default: pearson; of demetr, accuracy)."


@command(
    "correlate",
    lexical=SEGMENT_LEXICAL,
    example="twmd correlate wmt:wmt17.jsonl -m twmd bertscore_centered --correlation pearson kendall --trials 1000",
)
@declare.argument("data", required=False, type=declare.DATA, metavar="[DATA]")
@declare.option("--data named_data", "DATA", f"DATA, as an option as in other commands. {declare.RATED}")
@compared
@declare.settings
@declare.option("--resamples", "N", f"{RESAMPLES} (default: 1000).", type=declare.COUNT, default=1000)
@declare.output_format(*declare.RESULT_FORMATS)
@declare.many("--correlation", "NAME", CORRELATIONS, type=declare.words(STATISTICS))
@declare.choice(
    "--by",
    ["none", "group", "item", "system"],
    "group",
    "Average the correlations over groups, items or systems (default: group).",
)
@declare.choice("--level", ["segment", "system"], "segment", "system: means of systems, and their pairwise accuracy.")
@declare.option("--trials", "N", f"{TRIALS} (default: 0).", type=declare.COUNT, default=0)
@declare.flag("--official", OFFICIAL)
@declare.option("--task", "YEAR", TASK, type=declare.words(["wmt22", "wmt23", "wmt24"]))
@declare.seed("Seed of resamples and trials")
@declare.option("--threshold", "X", "With darr, ratings that differ by less are not compared (default: 25).")
@declare.output("Write the tables, pictures, everything as JSON, and every segment's scores (CSV).")
@declare.run_options
def correlate_command(arguments: Arguments) -> int:
    """Measure how metrics agree with people on rated data, with intervals, and whether one agrees better than
    another.
    """
    if (arguments.data is None) == (arguments.named_data is None):
        raise SpecError("name rated data once: twmd correlate DATA -m METRIC..., or --data DATA.")
    data = arguments.data or arguments.named_data
    others = arguments.correlation or (arguments.by, arguments.level) != ("group", "segment")
    others = others or get_current_context().get_parameter_source("resamples") is ParameterSource.COMMANDLINE
    if arguments.task and (others or (arguments.trials and arguments.task != "wmt22")):
        unused = "--correlation, --by, --level, --resamples and --trials"
        raise SpecError(f"--task names its own statistics: leave out {unused}.")
    default = "accuracy" if data.startswith("demetr:") else "pearson"
    statistics = tuple(arguments.correlation) or (default,)
    if arguments.threshold is not None and "darr" not in statistics:
        raise SpecError("--threshold is of darr: ask for --correlation darr, or leave it out.")
    from twmd_registry.metaeval.correlation import THRESHOLD
    from twmd_registry.metaeval.study import Study, StudyResult, run_study
    from twmd_registry.metaeval.tasks import pairs_of_task, run_task

    options, rated = options_of(arguments), read_rated(data)
    metrics = [metric.spec or metric.name for metric in arguments.asked]
    official = read_official(data, rated) if arguments.official else []
    study = Study(
        data=title_of(data),
        content=content_of(rated),
        metrics=(*metrics, *official),
        statistics=statistics,
        averaging=arguments.by,
        level=arguments.level,
        resamples=arguments.resamples,
        trials=arguments.trials,
        seed=arguments.seed,
        threshold=THRESHOLD if arguments.threshold is None else arguments.threshold,
    )
    if arguments.task == "wmt22" and data.startswith("mte:"):
        pairs_of_task(arguments.task, rated)  # refused before warnings of what they lack
        rated = read_divisions(data, rated)
    drawn = arguments.output and not arguments.task and (arguments.level != "system" or rated.item is not None)
    if drawn:
        from twmd_registry.report.figures import require_matplotlib

        require_matplotlib()
    run: Callable[..., StudyResult | TaskResult] = run_study
    if arguments.task:
        run = partial(run_task, arguments.task)
    first = "loading the model" if any(metric.spec for metric in arguments.asked) else ""
    with progress_bar(first=first) as progress:
        result = run(study, rated, options, progress)
    form = arguments.format
    with printed(as_json(result.as_dict()) if form == "json" else result.as_text(SUFFIXES[form])):
        if arguments.output:
            _write_study(result, rated, arguments.output)
        if drawn and isinstance(result, StudyResult):
            _draw(result, rated, arguments.output)
    return 0


def _write_study(result: StudyResult | TaskResult, rated: RatedSegments, folder: Path) -> None:
    """Write the tables in every format, everything as JSON, and every segment's scores."""
    from twmd_registry.report.figures import as_csv

    for title, table in result.tables.items():
        write_forms(folder, title, partial(as_text, table))
    write_file(folder / "study.json", f"{as_json(result.as_dict())}\n".encode())
    blank = [""] * len(rated.group)
    ratings = rated.group, rated.item or blank, rated.system or blank, rated.ratings.tolist()
    header = ["group", "item", "system", "rating", *(metric.label for metric in result.scored)]
    rows = zip(*ratings, *(metric.scores for metric in result.scored), strict=True)
    write_file(folder / "segments.csv", as_csv(header, rows))


def _draw(result: StudyResult, rated: RatedSegments, folder: Path) -> None:
    """Write the pictures of a study, for which systems need items."""
    from twmd_registry.report.agreement_page import draw_agreement
    from twmd_registry.report.figures import SUFFIXES

    for suffix in SUFFIXES:
        for name, content in draw_agreement(result, rated, suffix).items():
            write_file(folder / f"{name}{suffix}", content)


def report_agreement(arguments: Arguments) -> int:
    """Write the page of ``twmd report --agreement``: Pearson, Kendall, and ``acc_eq`` where the data name items."""
    from twmd_registry.metaeval.study import Study, run_study
    from twmd_registry.report.agreement_page import agreement_page
    from twmd_registry.report.figures import require_matplotlib

    require_matplotlib()
    data, options = read_all_rated(arguments.agreement), options_of(arguments)
    metrics = tuple(metric.spec or metric.name for metric in arguments.asked)
    measured = []
    first = "loading the model" if any(metric.spec for metric in arguments.asked) else ""
    with progress_bar(first=first) as progress:
        for text, rated in data.items():
            statistics: tuple[Statistic, ...] = ("pearson", "kendall", *(("acc_eq",) if rated.item else ()))
            if text.startswith("demetr:"):
                statistics = ("accuracy",)
            study = Study(title_of(text), content_of(rated), metrics, statistics, seed=arguments.seed)
            measured.append((run_study(study, rated, options, progress), rated))
    with printed("\n\n".join(result.as_text("txt") for result, _ in measured)):
        write_file(arguments.output, agreement_page(measured).encode())
    print(f"wrote {arguments.output}")
    return 0


TEXTS = f"Texts, one per line, or a table. {declare.RATED}"
WORDS = {True: "pass", False: "fail", None: UNDEFINED}


@command("diagnose", example="twmd diagnose embedded --data corpus.txt -o out/")
@declare.argument("model", metavar="MODEL")
@declare.option("--data", "DATA", TEXTS, type=declare.TEXTS, required=True)
@declare.columns
@declare.seed("Seed of the draw of word pairs")
@declare.output_format(*declare.RESULT_FORMATS)
@declare.output("Write the numbers (CSV) and the figure (PNG, SVG).")
@declare.placement
def diagnose_command(arguments: Arguments) -> int:
    """Measure how similar a model's word vectors are, layer by layer, for every centering (TWMD paper, section 5,
    Figures 1 and 2).

    MODEL is a Hub id, a folder, 'embedded' or 'multilingual'.
    """
    options = options_of(arguments)
    if isinstance(arguments.data, Path):
        texts = read_texts([arguments.data], columns_of(arguments))
    else:
        rated = read_rated(arguments.data)
        references = [text for texts in rated.references for text in ([texts] if isinstance(texts, str) else texts)]
        texts = list(dict.fromkeys([*rated.predictions, *references]))
    from twmd_registry.metaeval.diagnosis import diagnose
    from twmd_registry.report.figures import require_matplotlib

    if arguments.output:
        require_matplotlib()
    with progress_bar("texts") as progress:
        diagnosis = diagnose(arguments.model, texts, options, seed=arguments.seed, progress=progress)
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
    """Print a diagnosis, beside a paper's verdicts by centering, and write its numbers (CSV) and figure."""
    from twmd_registry.metaeval.diagnosis import PROPERTIES

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
    tables = [(title, ("centering", "layer", *(f"{name} (se)" for name in PROPERTIES)), rows)]
    if form != "tsv" or paper:
        shown = [verdict | {"holds": WORDS[verdict["holds"]]} for verdict in verdicts]
        lines = [tuple(str(verdict[head] or MISSING) for head in heads) for verdict in shown]
        tables.append(("properties", heads, lines))
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
    """Write the numbers as CSV, and the figure, to files of this stem."""
    import numpy as np

    from twmd_registry.metaeval.diagnosis import Similarity
    from twmd_registry.report.figures import SUFFIXES, as_csv, curves

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


SHOWN_TRIALS = 12
TRIED = "Values of a key to try (temperature=0.1,0.2 ngram=1,2; default: at most 200 settings)."


@command("tune", example="twmd tune twmd --data wmt:wmt15.jsonl wmt:wmt16.jsonl")
@declare.argument("metrics", nargs=-1, required=True, shell_complete=declare.offer(MetricName), metavar="METRIC...")
@declare.many("--data", "DATA", declare.RATED, required=True)
@declare.many("--set", "KEY=VALUE", "Set a key for all trials: model=MODEL (default: embedded), or any other key.")
@declare.many("--layers", "K", "Hidden states to try (default: all from 1).", type=int)
@declare.many("--try tried", "KEY=VALUE,..", TRIED)
@declare.output("Write every trial (TSV), the surfaces (PNG, SVG), and preset.toml with hashes of the data.")
@declare.option("--name", "NAME", "Name of the preset (default: MODEL-tuned, with a number if that name is taken).")
@declare.output_format(*declare.RESULT_FORMATS)
@declare.run_options
def tune_command(arguments: Arguments) -> int:
    """Choose layer, temperature, centering and special tokens on rated data (TWMD paper, Appendix B).

    Tries every setting of the grid, prints the best, and writes trials, surfaces and a preset where a folder is given.
    """
    metrics = list(dict.fromkeys(arguments.metrics))
    keys = {key for metric in metrics for key in entry(metric).keys}
    fixed = parse_assignments(arguments.set)
    model, layer = fixed.pop("model", "embedded"), fixed.pop("layer", None)
    if layer is not None and arguments.layers:
        raise SpecError("--set layer and --layers both say which layers are tried: give one of them.")
    if layer is not None and not layer.isdecimal():
        raise SpecError(f"--set layer={layer}: expected the number of a hidden state; --layers takes several.")
    tried = read_tried([*(f"{key}={value.replace(',', '%2C')}" for key, value in fixed.items()), *arguments.tried])
    if unused := [key for key in tried if key not in keys]:
        raise SpecError(f"{unused[0]}: none of {', '.join(metrics)} has such a key.")
    name = name_preset(arguments.name, f"{model}-tuned") if arguments.output else ""
    options = options_of(arguments)
    with progress_bar(first="loading torch and the model") as progress:
        from twmd_registry.metaeval.tune import MOST_SETTINGS, layers_above_embeddings, settings, tune
        from twmd_registry.report.figures import require_matplotlib

        if arguments.output:
            require_matplotlib()
        if "centering" not in tried:
            tried["centering"] = _centerings_to_try(model)
        data = read_all_rated(arguments.data)
        layers = [int(layer)] if layer is not None else arguments.layers
        limit, kept = None if arguments.tried else MOST_SETTINGS // len(metrics), ("layer",) if layers else ()
        layers = layers or layers_above_embeddings(model, options)
        grids = [settings(metric, model, layers, tried, most=limit, kept=kept) for metric in metrics]
        specs = list(dict.fromkeys(itertools.chain.from_iterable(grids)))
        segments = sum(len(rated.ratings) for rated in data.values())
        if limit:
            complain("twmd:", HEADER, f"at most {MOST_SETTINGS} settings are tried without --try KEY=VALUE,...")

        def announce(seconds: float) -> None:
            size = f"{len(specs)} settings on {segments} segments"
            complain("twmd:", HEADER, f"{size} take about {timedelta(seconds=round(seconds))} (h:mm:ss).")

        trials = tune(specs, list(data.values()), options, progress, announce)
    by_metric = {metric: [trial for trial in trials if trial[0].metric == metric] for metric in metrics}
    digits = None if arguments.format == "json" else 4
    best = {metric: _rows(trials, digits)[:SHOWN_TRIALS] for metric, trials in by_metric.items()}
    heads = {metric: f"{metric}: {len(trials)} settings on {segments} segments" for metric, trials in by_metric.items()}
    tables = (_table(rows, SUFFIXES[arguments.format], heads[metric]) for metric, rows in best.items())
    with printed(as_json(best) if arguments.format == "json" else "\n\n".join(tables)):
        if arguments.output:
            _write(arguments.output, name, by_metric, data)
    return 0


def read_tried(texts: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """Read what is to be tried for keys, ``KEY=VALUE,VALUE,...`` each; a comma inside a value is written ``%2C``."""
    tried: dict[str, tuple[Value, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values or name in {*tried, "layer", "model"}:
            expected = "expected KEY=VALUE,VALUE once per key; --layers names layers, --set model=MODEL a model"
            raise SpecError(f"--try {text!r}: {expected}.")
        tried[name] = tuple(key(name).parse(value.replace("%2C", ",")) for value in values.split(","))
    return tried


def _centerings_to_try(model: str) -> tuple[Value, ...]:
    """Return the centerings of the grid; of a model without a mean vector background centering is not tried."""
    from twmd_registry.metaeval.tune import GRID

    if known_name(model) in {"embedded", EMBEDDED_MODEL}:
        return GRID["centering"]
    fit = "fit a mean vector of this model ('twmd fit-mean') and give --try centering=background:HASH,none,..."
    warn(f"background centering is not tried: {fit}")
    return tuple(value for value in GRID["centering"] if value != "background")


def _rows(trials: Sequence[Trial], digits: int | None = None) -> list[dict[str, object]]:
    """Return a row per trial: the keys in which they differ, and the mean Pearson correlation; as text with digits."""
    from twmd_registry.metaeval.tune import varied_keys

    names, rows = varied_keys(trials), list[dict[str, object]]()
    for spec, pearson in trials:
        values = {name: spec.values().get(name, KEYS[name].neutral) for name in names}
        cells = {name: MISSING if value is None else KEYS[name].format(value) for name, value in values.items()}
        rows.append({**values, "pearson": pearson} if digits is None else {**cells, "pearson": f"{pearson:.{digits}f}"})
    return rows


def _table(rows: Sequence[dict[str, object]], form: str, title: str = "") -> str:
    return as_text((title, tuple(rows[0]), [tuple(map(str, row.values())) for row in rows]), form, len(rows[0]) - 1)


def _write(folder: Path, name: str, by_metric: dict[str, list[Trial]], data: dict[str, RatedSegments]) -> None:
    """Write every trial, a surface per metric, the preset, and hashes of the data that it was chosen on."""
    from twmd_registry.metaeval.overlap import write_hashes
    from twmd_registry.metaeval.tune import write_preset
    from twmd_registry.report.figures import SUFFIXES, surface
    from twmd_registry.train.data import TrainingData, hashes_of

    for metric, tried in by_metric.items():
        write_file(folder / f"{metric}.tsv", f"{_table(_rows(tried, 6), 'tsv')}\n".encode())
        if all(isinstance(spec.layer, int) for spec, _ in tried):
            points = [(str(spec.centering), int(str(spec.layer)), spec.temperature, pearson) for spec, pearson in tried]
            for suffix in SUFFIXES:
                write_file(folder / f"{metric}{suffix}", surface(points, f"{metric}: best mean Pearson", suffix))
    hashes = hashes_of(TrainingData(title_of(source), rated) for source, rated in data.items())
    write_hashes(hashes, (folder / PRESET_FILE).with_suffix(HASHES))
    trials = list(itertools.chain.from_iterable(by_metric.values()))
    write_file(folder / PRESET_FILE, write_preset(name, trials, list(hashes)).encode())


MEMBERS = {"stsscore": "STSScore", "bertscore": "BERTScore", "sbert": "S-BERT"}
"""By option, the paper's row whose metric it replaces."""
MEMBER = "A metric with keys, as a member of an ensemble (default: the paper's, on the embedded model)."
STUDIED = ("table1", "table2", "table3", "table4", "auc")


def _data_dir(about: str, **settings: bool) -> declare.Declare:
    return declare.option("--data-dir", "DIR", about, type=declare.INPUT_FOLDER, **settings)


@command("study", example="twmd study stsscore --data-dir data/ -o out/")
@declare.argument("paper", type=click.Choice(["stsscore"]))
@_data_dir("Folder with stsb/, mrpc/, qqp/, wmt22/, as far as you have them.")
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
    from twmd_registry.papers.run import draw_data_sets, reproduce
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


@command("reproduce", example="twmd reproduce twmd-table2 --data-dir data/ -o out/")
@declare.argument("table", metavar="TABLE")
@_data_dir("Folder with wmt/wmt17.jsonl, sts/STS12 and so on, as the table needs.", required=True)
@declare.option("--model", "MODEL", f"A Hub id or a folder (default: {EMBEDDED_MODEL}).", default=EMBEDDED_MODEL)
@declare.option(
    "--layer", "K", "Hidden state (default: the paper's for its models, else the preset's or by rule).", type=int
)
@declare.output_format(*declare.RESULT_FORMATS)
@declare.output("Write the table (text, Markdown, LaTeX, TSV) and signatures.")
@declare.run_options
def reproduce_command(arguments: Arguments) -> int:
    """Compute a paper's table or figure again with any model, beside the paper's own numbers.

    TABLE is one of twmd-table1 to 9, twmd-figure1 to 6, twmd-appendix-b (Chen et al. 2020); moverscore-table1, 2, 3, 5,
    6, 8, moverscore-figure2, 3 (Zhao et al. 2019); stsscore-table1 to 4, stsscore-auc (Herbold 2024).
    """
    from twmd_registry.papers.run import draw_pictures, reproduce
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
        write_forms(folder, experiment.name, table.text)
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
    from twmd_registry.papers.reproduction import short_name
    from twmd_registry.papers.run import diagnose_words

    encoder = {"model": arguments.model, "layer": arguments.layer}
    with progress_bar("texts") as progress:
        diagnosis = diagnose_words(experiment, arguments.data_dir, options, progress=progress, **encoder)
    name, about = short_name(diagnosis.model), f"{experiment.about} Here: "
    return _report_diagnosis(diagnosis, arguments, experiment.name, name, about=about, paper=experiment.properties)
