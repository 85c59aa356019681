"""``task``, ``submit`` and ``accuracy``: rank metrics like shared tasks, write their files, interpret a difference."""

from __future__ import annotations

import itertools
import re

import rich_click as click

from experiments.protocols.submission import read_outputs, submission_files
from experiments.protocols.tasks import RANKED, pairs_of_task, read_divisions, run_task
from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.metrics import make_scorers, options_of
from twmd_registry.cli.output import SUFFIXES, as_json
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.comparison.text_table import TextTable, as_text, between
from twmd_registry.errors import FileError, SpecError
from twmd_registry.judgments.official import read_official
from twmd_registry.judgments.sets import content_of, read_all_rated, read_rated, title_of
from twmd_registry.metaeval.study import Study
from twmd_registry.registry.names import SEGMENT_LEXICAL
from twmd_registry.registry.paths import write_file

SUBMITTED = re.compile(r"[A-Za-z0-9_-]+")
"""A valid metric name in a submission."""
SHARES = (0.6, 0.75, 0.9, 0.95)
"""Shares of comparisons in which humans agree with a difference of scores."""
SEGMENTS = (100, 300, 1000, 3000)


COMPARED = "Metrics, 'METRIC;KEY=VALUE;...' with their own keys, signatures, bleu, chrf, chrf++."
OFFICIAL = "Also rank the metrics whose scores the shared task published with the data (mte:FOLDER)."
TRIALS = "Trials of the permutation tests by which wmt22 ranked metrics (default: 0, ranks of the values)."


@command(
    "task",
    sacrebleu=SEGMENT_LEXICAL,
    example="python -m experiments task wmt23 mte:wmt23/ -m 'twmd;preset=multilingual-tuned' chrf --official",
)
@declare.argument("year", type=click.Choice(["wmt22", "wmt23", "wmt24"]))
@declare.argument("data", type=declare.DATA, metavar="DATA")
@declare.metrics(SEGMENT_LEXICAL, COMPARED, required=True)
@declare.settings
@declare.flag("--official", OFFICIAL)
@declare.option("--trials", "N", TRIALS, type=declare.COUNT, default=0)
@declare.seed("Seed of the trials")
@declare.output_format(*declare.RESULT_FORMATS)
@declare.run_options
def task_command(arguments: Arguments) -> int:
    """Rank metrics as a year's metrics shared task did, over the language pairs in the data.

    DATA is rated data with items and systems, such as mte:FOLDER in the layout of mt-metrics-eval.
    """
    if arguments.trials and arguments.year != RANKED:
        raise SpecError(f"--trials applies to {RANKED}, which averaged ranks: leave it out.")
    options, rated = options_of(arguments), read_rated(arguments.data)
    metrics = [metric.spec or metric.name for metric in arguments.requested]
    official = read_official(arguments.data, rated) if arguments.official else []
    study = Study(
        data=title_of(arguments.data),
        content=content_of(rated),
        metrics=(*metrics, *official),
        statistics=("pearson",),
        trials=arguments.trials,
        seed=arguments.seed,
    )
    if arguments.year == RANKED and arguments.data.startswith("mte:"):
        pairs_of_task(arguments.year, rated)  # refuse the data before warnings about what they lack
        rated = read_divisions(arguments.data, rated)
    first = "loading the model" if any(metric.spec for metric in arguments.requested) else ""
    with progress_bar(first=first) as progress:
        result = run_task(arguments.year, study, rated, options, progress)
    say(as_json(result.as_dict()) if arguments.format == "json" else result.as_text(SUFFIXES[arguments.format]))
    return 0


@command(
    "submit", sacrebleu=(), example="python -m experiments submit wmt23/ -m twmd --preset multilingual -o submission/"
)
@declare.argument("folder", type=declare.INPUT_FOLDER, metavar="DIR")
@declare.metric("The metric, or a signature.", required=True)
@declare.settings
@declare.option("--name", "NAME", "The metric's name in the files (default: METRIC).")
@declare.option("--test-set", "NAME", "The test set's name in the files (default: the name of DIR).")
@declare.output("Where the files are written.", required=True)
@declare.run_options
def submit_command(arguments: Arguments) -> int:
    """Score every output of a test set of the metrics shared task, and write the files to submit.

    DIR is in the layout of mt-metrics-eval. The files are the task's tables, the score files of mt-metrics-eval and the
    signatures.
    """
    (requested,), name = arguments.requested, arguments.name or arguments.metrics[0]
    if not SUBMITTED.fullmatch(name):
        raise SpecError(f"--name {name}: expected letters, digits, - and _, as in the shared task.")
    year = arguments.test_set or arguments.folder.resolve().name
    if not SUBMITTED.fullmatch(year):
        raise SpecError(f"test set {year!r}: expected letters, digits, - and _; name it with --test-set.")
    against = {member.against for member in requested.spec.members_or_self}
    outputs = read_outputs(arguments.folder, {None, "source"} if "both" in against else against)
    stems = {name, *(f"metric-scores/{output.pair.name}/{name}-{output.reference}" for output in outputs)}
    for stem in stems:
        if any(arguments.output.glob(f"{stem}.*")):
            raise FileError(
                f"{arguments.output} already contains scores of {name}: remove them, or choose another folder."
            )
    segments = sum(len(output.predictions) for output in outputs)
    with progress_bar(total=segments) as progress:
        (scorer,) = make_scorers([requested], options_of(arguments))
        from twmd_registry.engine.scorer import score_with

        texts = [(output.predictions, output.references, output.sources) for output in outputs]
        scored = [score_with([scorer], *arguments_of_output, progress=progress)[0] for arguments_of_output in texts]
    results = [(result.score, result.scores) for result in scored]
    for path, text in submission_files(name, year, outputs, results).items():
        write_file(arguments.output / path, text.encode())
    lines = "\n".join(sorted({str(result.signature) for result in scored}))
    write_file(arguments.output / f"{name}.signature.txt", f"{lines}\n".encode())
    pairs = len({output.pair.name for output in outputs})
    print(f"{len(scored)} outputs of {pairs} language pairs, {segments} segments: {arguments.output}\n{lines}")
    return 0


@command(
    "accuracy",
    sacrebleu=(),
    example="python -m experiments accuracy mte:wmt22/,pair=zh-en -m twmd",
    note=declare.RATED,
)
@declare.argument("data", nargs=-1, required=True, type=declare.DATA, metavar="DATA...")
@declare.metric("The metric, or a signature.", required=True)
@declare.settings
@declare.output_format(*declare.RESULT_FORMATS)
@declare.run_options
def accuracy_command(arguments: Arguments) -> int:
    """Fit the difference of two systems' scores that humans agree with, by number of segments (Kocmi et al. 2024).

    The data name the item and system of every segment, with at least five systems.
    """
    data = read_all_rated(arguments.data)
    from experiments.protocols.delta_accuracy import fit_delta_accuracy
    from twmd_registry.engine.scorer import score_with

    with progress_bar(total=sum(len(rated.ratings) for rated in data.values())) as progress:
        (scorer,) = make_scorers(arguments.requested, options_of(arguments))
        scored = []
        for rated in data.values():
            texts = rated.predictions, rated.references
            (scores,) = score_with([scorer], *texts, sources=rated.source, progress=progress)
            scored.append((scores.scores, rated))
        fit = fit_delta_accuracy(scored)
    estimates = {(n, share): fit.difference(share, n) for n, share in itertools.product(SEGMENTS, SHARES)}
    if arguments.format == "json":
        rows = [
            {"segments": n, "share": share, "difference": value, "low": low, "high": high}
            for (n, share), (value, low, high) in estimates.items()
        ]
        say(as_json({"signature": scorer.signature, "systems": fit.systems, "differences": rows}))
        return 0
    cells = {place: f"{value:.4f} {between(low, high, 4)}" for place, (value, low, high) in estimates.items()}
    title = f"Difference of two systems' scores that humans agree with, {fit.systems} systems"
    lines = [(str(n), *(cells[n, share] for share in SHARES)) for n in SEGMENTS]
    table = TextTable(title, ("segments", *(f"{share:.0%}" for share in SHARES)), lines)
    say(f"{as_text(table, SUFFIXES[arguments.format])}\n\n{scorer.signature}")
    return 0
