"""``recipe`` and its steps: the data that the packaged adapters learned from, their teachers, and copies in 8 bits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from experiments.training.recipes import DATA, read_recipes, run_recipe
from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import columns_of
from twmd_registry.cli.metrics import RequestedMetric, make_scorers, options_of
from twmd_registry.cli.output import format_table
from twmd_registry.cli.terminal import progress_bar
from twmd_registry.errors import SpecError
from twmd_registry.judgments.sets import read_all_rated, title_of
from twmd_registry.registry.diff import labels_of
from twmd_registry.registry.paths import write_file

if TYPE_CHECKING:
    from twmd_registry.engine.scorer import Scorer

SETS = ("wmt", "mlqe", "mlqe-source", "from-english", "stsb", "pairs")
PAIRS = "Tables of pairs: JSON lines, CSV, TSV or Parquet; a column 'group' names language pairs."
EDITS = (
    "Edit one in four of the pairs that can be edited, and rate the edit lower than the pair: numbers, units, names, "
    "negations (default: none)."
)
written = declare.output("The file or folder to write.", "PATH", type=declare.FILE, required=True)


@command("recipe", example="python -m experiments recipe distilled --data-dir ../data")
@declare.argument("name", required=False, metavar="[NAME]")
@declare.option("--data-dir", "DIR", DATA, type=declare.FILE, default="data")
@declare.output("Where everything is built (default: build).", default="build")
def recipe_command(arguments: Arguments) -> int:
    """Rebuild a packaged adapter, or anything that it needs. An interrupted recipe resumes.

    Without NAME, list all recipes.
    """
    if arguments.name is None:
        for name, recipe in read_recipes().items():
            print(f"{name:26} {recipe.about}")
        return 0
    return run_recipe(arguments.name, arguments.data_dir, arguments.output)


@command("data", example="python -m experiments data mlqe data/mlqe -o build/mlqe.jsonl")
@declare.argument("name", type=click.Choice(SETS), metavar=f"[{'|'.join(SETS)}]")
@declare.argument("sources", nargs=-1, required=True, type=declare.INPUT, metavar="PATH...")
@declare.many("--without", "LANGUAGE", "Languages to leave out (wmt, mlqe, mlqe-source, stsb).")
@declare.option("--per-segment", "N", "Maximum pairs per segment (pairs; default: 2).", default=2)
@declare.option("--share", "X", "Share of the segments to draw pairs from (pairs; default: 1).", default=1.0)
@declare.option("--held-out", "FILE", "A file of WMT whose texts no pair may contain (pairs).", type=declare.INPUT)
@written
def data_command(arguments: Arguments) -> int:
    """Write training data of packaged adapters.

    PATH is a file of WMT (wmt), MLQE-PE's folder (mlqe, mlqe-source; for from-english, then an adapter's), the folders
    of STS-B and stsb-multi (stsb), or the archives of systems' outputs (pairs).
    """
    from experiments.training import data

    without, (first, *others), output = set(arguments.without), arguments.sources, arguments.output
    if (arguments.name in {"from-english", "stsb"}) != (len(others) == 1) and arguments.name != "pairs":
        raise SpecError(f"{arguments.name} does not take {len(arguments.sources)} paths: see --help.")
    if (arguments.name == "pairs") != (arguments.held_out is not None):
        raise SpecError("--held-out applies to pairs only, which require it.")
    if arguments.name == "pairs":
        data.pair_outputs(arguments.sources, output, arguments.per_segment, arguments.held_out, arguments.share)
    elif arguments.name == "from-english":
        data.rate_from_english(first, others[0], output)
    elif arguments.name == "wmt":
        data.filter_wmt(first, output, without)
    elif arguments.name == "stsb":
        data.mix_stsb(first, others[0], output, without)
    else:
        data.sample_mlqe(first, output, without, sources=arguments.name == "mlqe-source")
    return 0


@command(
    "rate",
    sacrebleu=(),
    example="python -m experiments rate pairs.jsonl --holdout wmt:wmt17.jsonl -m 'twmd;adapter=teacher/' -o out.jsonl",
)
@declare.argument("pairs", nargs=-1, required=True, type=declare.INPUT, metavar="PAIRS...")
@declare.metric("The teacher: a metric or a signature.", required=True)
@declare.many("--edits", "KIND", EDITS, type=declare.words(["numbers", "units", "names", "negations"]))
@declare.option(
    "--margin", "X", "How much lower an edit is rated, in standard deviations of the ratings (default: 1).", default=1.0
)
@declare.many("--holdout", "DATA", "Held-out rated data: pairs that contain any of their texts are refused.")
@declare.seed("Seed of the edits", 1)
@written
@declare.settings
@declare.columns
@declare.run_options
def rate_command(arguments: Arguments) -> int:
    """Rate pairs of texts with a teacher metric, for 'twmd train metric table:FILE'.

    PAIRS are tables of predictions and references. An interrupted run resumes from FILE.part.
    """
    from functools import reduce

    from experiments.training.teacher import add_edits, check_teacher, join, rate, read_pairs, table_text
    from twmd_registry.train.data import TrainingData, check_held_out, check_readable

    tables = [TrainingData(path.name, read_pairs(path, columns_of(arguments))) for path in arguments.pairs]
    holdout = [TrainingData(title_of(name), rated) for name, rated in read_all_rated(arguments.holdout).items()]
    check_held_out(tables, holdout, predictions=True)
    (teacher,) = make_scorers(arguments.requested, options_of(arguments))
    check_teacher(teacher)
    for table in tables:
        for spec in {member.requested.model: member.requested for member in teacher.members}.values():
            check_readable(table, spec, any_language=arguments.any_language)
    pairs = reduce(join, (table.rated for table in tables))
    output = Path(arguments.output)
    with progress_bar("pairs", len(pairs.predictions)) as progress, teacher:
        rated = rate(teacher, pairs, output.with_name(f"{output.name}.part"), progress)
        if arguments.edits:
            rated = add_edits(rated, arguments.edits, arguments.margin, arguments.seed)
        write_file(output, table_text(rated).encode())
        print(f"{len(rated.predictions)} rated pairs\nsignature {teacher.signature}")
    return 0


@command(
    "learn",
    sacrebleu=(),
    example="python -m experiments learn wmt15=2 bio=1 --data-dir ../data -m twmd --set layer=4-5 -o build/judge",
)
@declare.argument("mix", nargs=-1, required=True, metavar="SET=WEIGHT...")
@declare.metric("The metric to train.", required=True)
@declare.option("--data-dir", "DIR", DATA, type=declare.FILE, default="data")
@declare.option("--into", "LANGUAGE", "Learn only from translations into one language (default: all).")
@declare.option("--errors", "X", "Share of the rows that are added a second time with an error.", default=0.0)
@declare.option("--steps", "N", "Batches (default: 1000).", default=1000)
@declare.option("--batch", "N", "Rows of a batch (default: 24).", default=24)
@declare.option("--rank", "N", "Rank of the adapter (default: 32).", default=32)
@declare.option("--rate", "X", "Learning rate (default: 0.0005).", default=5e-4)
@declare.option("--dropout", "X", "Dropout (default: 0).", default=0.0)
@declare.option(
    "--frozen", "LAYERS", "Lower layers that the adapter leaves as they are (default: 0).", type=int, default=0
)
@declare.option(
    "--max-characters",
    "N",
    "Leave out rows with a longer text, for speed, except summaries (default: no limit).",
    type=int,
)
@declare.choice("--ranking", ("none", "ranknet", "margin"), "ranknet", "Loss that ranks the outputs of a segment.")
@declare.option("--start", "ADAPTER", "An adapter of the same rank to start from.")
@declare.seed("Seed", 1)
@written
@declare.settings
@declare.run_options
def learn_command(arguments: Arguments) -> int:
    """Train an adapter on several rated sets at once, each drawn in proportion to its WEIGHT.

    A SET is one of experiments/training/sets.py, or a table that a teacher rated (rated.jsonl=2). An interrupted run
    resumes from its last checkpoint.
    """
    from experiments.training import sets
    from experiments.training.edits import make_errors
    from experiments.training.learn import Plan, Weighted, learn
    from twmd_registry.judgments.rated import read_table

    options = options_of(arguments)
    (scorer,) = make_scorers(arguments.requested, options)
    weights = {name: float(weight) for name, _, weight in (word.rpartition("=") for word in arguments.mix)}
    tables = {name: Path(name) for name in weights if name.endswith(".jsonl")}
    rated = sets.read_learned(
        [name for name in weights if name not in tables],
        Path(arguments.data_dir),
        arguments.into,
        scorer.requested.against,
    )
    rated |= {path.name: sets.standardise(read_table(path, group="group")) for path in tables.values()}
    weights = {Path(name).name if name in tables else name: weight for name, weight in weights.items()}
    if arguments.max_characters:
        # Nearly all summaries are longer, so the limit would leave none.
        rated = {
            name: own if name == "summeval" else sets.shorter(own, arguments.max_characters)
            for name, own in rated.items()
        }
    if arguments.errors:
        rated = {
            name: sets.add_rows(own, make_errors(own, arguments.errors, -sets.CLIPPED, arguments.seed))
            for name, own in rated.items()
        }
    names = ("steps", "batch", "rank", "rate", "dropout", "frozen", "ranking", "start", "seed")
    plan = Plan(scorer.requested, **{name: getattr(arguments, name) for name in names})
    chosen = [Weighted(name, rated[name], weights[name]) for name in rated]
    with progress_bar("steps", plan.steps) as progress:
        for done in learn(chosen, plan, Path(arguments.output), name=Path(arguments.output).name, options=options):
            if progress:
                progress(done)
    return 0


@command("dev", sacrebleu=(), example="python -m experiments dev --data-dir ../data -m twmd 'twmd;adapter=build/judge'")
@declare.option("--data-dir", "DIR", DATA, type=declare.FILE, default="data")
@declare.option("--into", "LANGUAGE", "Only translations into one language (default: all).")
@declare.metrics((), "The metrics to compare.", required=True)
@declare.settings
@declare.run_options
def dev_command(arguments: Arguments) -> int:
    """Measure metrics on the data by which adapters are chosen: Pearson's r within groups, and after a slash the
    accuracy on pairs of one segment's outputs, x 100. No test set is read.
    """
    from math import isnan

    from experiments.training.sets import agreement, read_dev

    parts = read_dev(Path(arguments.data_dir), arguments.into)
    scorers = make_scorers(arguments.requested, options_of(arguments))
    if any(scorer.spec.against for scorer in scorers):
        parts = {kind: own for kind, own in parts.items() if all(rated.source for rated in own)}
    columns = [agreement(scorers, parts[kind]) for kind in parts]
    rows = []
    for label, values in zip(_labels(arguments.requested, scorers), zip(*columns, strict=True), strict=True):
        mean = sum(r for r, _ in values) / len(values)
        rows.append([label, f"{mean:.1f}", *(f"{r:.1f}" + ("" if isnan(a) else f" / {a:.1f}") for r, a in values)])
    print(format_table(["metric", "mean r", *parts], rows, "text"))
    return 0


def _labels(requested: Sequence[RequestedMetric], scorers: Sequence[Scorer]) -> list[str]:
    """Label metrics by their names without folders, or by their differing settings if that is shorter."""
    names = [re.sub(r"(?<==)[^;,|]*/", "", metric.name) for metric in requested]
    labels = labels_of([scorer.spec for scorer in scorers])
    is_short = len(set(names)) == len(names) and max(map(len, names)) <= max(map(len, labels))
    return names if is_short else labels


@command("shrink", example="python -m experiments shrink build/mean -o build/packaged/rated-mpnet")
@declare.argument("adapter", type=declare.INPUT_FOLDER, metavar="DIR")
@written
def shrink_command(arguments: Arguments) -> int:
    """Copy an adapter with 8-bit matrices, which PEFT reads like any other."""
    from experiments.training.small_adapter import shrink

    shrink(arguments.adapter, arguments.output)
    return 0


@command(
    "defaults",
    sacrebleu=(),
    example="python -m experiments defaults --data-dir ../data -m twmd 'twmd;preset=embedded-tuned'",
)
@declare.option("--data-dir", "DIR", DATA, type=declare.FILE, default="data")
@declare.metrics((), "The presets to compare, as METRIC or METRIC;preset=NAME.", required=True)
@declare.settings
@declare.run_options
def defaults_command(arguments: Arguments) -> int:
    """Measure which preset a metric has by default: the one with the highest mean correlation over all development
    data, with equal weight for every kind.
    """
    from experiments.training.defaults import KINDS, measure

    scorers = make_scorers(arguments.requested, options_of(arguments))
    with progress_bar("segments") as progress:
        columns = [measure(scorers, kind, Path(arguments.data_dir), progress) for kind in KINDS]
    rows = []
    for label, values in zip(_labels(arguments.requested, scorers), zip(*columns, strict=True), strict=True):
        mean = sum(values) / len(values)
        rows.append([label, f"{mean:.1f}", *(f"{value:.1f}" for value in values)])
    rows.sort(key=lambda row: -float(row[1]))
    print(format_table(["metric", "mean", *(kind.name for kind in KINDS)], rows, "text"))
    return 0
