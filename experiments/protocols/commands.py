"""``submit`` and ``accuracy``: what shared tasks ask for, and what a difference of scores means."""

from __future__ import annotations

import itertools
import re

from experiments.protocols.submission import read_outputs, submission_files
from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import make_scorers, options_of
from twmd_registry.cli.output import SUFFIXES, as_json
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.errors import FileError, SpecError
from twmd_registry.judgments.sets import read_all_rated
from twmd_registry.metaeval.side_by_side import as_text, between
from twmd_registry.registry.paths import write_file
from twmd_registry.registry.spec import members_or_self

SUBMITTED = re.compile(r"[A-Za-z0-9_-]+")
"""A metric's name in a submission."""
SHARES = (0.6, 0.75, 0.9, 0.95)
"""Shares of comparisons in which people agree with a difference of scores."""
SEGMENTS = (100, 300, 1000, 3000)


@command("submit", lexical=(), example="python -m experiments submit twmd wmt23/ --preset multilingual -o submission/")
@declare.metric()
@declare.argument("folder", type=declare.INPUT_FOLDER, metavar="DIR")
@declare.settings
@declare.option("--name", "NAME", "The metric's name in the files (default: METRIC).")
@declare.option("--test-set", "NAME", "The test set's name in the files (default: the name of DIR).")
@declare.output("Where the files are written.", required=True)
@declare.run_options
def submit_command(arguments: Arguments) -> int:
    """Score every output of a test set of the metrics shared task, and write the files that it asks for.

    DIR is in the layout of mt-metrics-eval. Written are the tables of the task, the score files that mt-metrics-eval
    reads, and the signatures.
    """
    (requested,), name = arguments.asked, arguments.name or arguments.metric
    if not SUBMITTED.fullmatch(name):
        raise SpecError(f"--name {name}: expected letters, digits, - and _, as the shared task has them.")
    year = arguments.test_set or arguments.folder.resolve().name
    if not SUBMITTED.fullmatch(year):
        raise SpecError(f"the test set {year!r}: expected letters, digits, - and _; name it by --test-set.")
    against = {member.against for member in members_or_self(requested.spec)}
    outputs = read_outputs(arguments.folder, {None, "source"} if "both" in against else against)
    stems = {name, *(f"metric-scores/{output.pair.name}/{name}-{output.reference}" for output in outputs)}
    for stem in stems:
        if any(arguments.output.glob(f"{stem}.*")):
            raise FileError(f"{arguments.output} holds scores of {name} already: remove them, or give another folder.")
    segments = sum(len(output.predictions) for output in outputs)
    with progress_bar(total=segments) as progress:
        (scorer,) = make_scorers([requested], options_of(arguments))
        from twmd_registry.engine.scorer import score_all

        texts = [(output.predictions, output.references, output.sources) for output in outputs]
        scored = [score_all([scorer], *each, progress=progress)[0] for each in texts]
    results = [(result.score, result.scores) for result in scored]
    for path, text in submission_files(name, year, outputs, results).items():
        write_file(arguments.output / path, text.encode())
    lines = "\n".join(sorted({str(result.signature) for result in scored}))
    write_file(arguments.output / f"{name}.signature.txt", f"{lines}\n".encode())
    pairs = len({output.pair.name for output in outputs})
    print(f"{len(scored)} outputs of {pairs} language pairs, {segments} segments: {arguments.output}\n{lines}")
    return 0


@command("accuracy", lexical=(), example="python -m experiments accuracy twmd --data mte:wmt22/,pair=zh-en")
@declare.metric()
@declare.many("--data", "DATA", declare.RATED, required=True)
@declare.settings
@declare.output_format(*declare.RESULT_FORMATS)
@declare.run_options
def accuracy_command(arguments: Arguments) -> int:
    """Fit which difference of two systems' scores people agree with, by the number of segments (Kocmi et al. 2024).

    The data name the item and the system of every segment, of five systems or more.
    """
    data = read_all_rated(arguments.data)
    from experiments.protocols.delta_accuracy import fit_delta_accuracy
    from twmd_registry.engine.scorer import score_all

    with progress_bar(total=sum(len(rated.ratings) for rated in data.values())) as progress:
        (scorer,) = make_scorers(arguments.asked, options_of(arguments))
        scored = []
        for rated in data.values():
            texts = rated.predictions, rated.references
            (scores,) = score_all([scorer], *texts, sources=rated.source, progress=progress)
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
    title = f"Difference of two systems' scores that people agree with, {fit.systems} systems"
    lines = [(str(n), *(cells[n, share] for share in SHARES)) for n in SEGMENTS]
    table = title, ("segments", *(f"{share:.0%}" for share in SHARES)), lines
    say(f"{as_text(table, SUFFIXES[arguments.format])}\n\n{scorer.signature}")
    return 0
