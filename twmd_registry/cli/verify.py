"""``twmd verify``: reproduce published scores."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import ScoringTask, files_of, read_tasks
from twmd_registry.cli.metrics import options_of, parts_of
from twmd_registry.cli.output import as_json, format_table
from twmd_registry.cli.terminal import complain, progress_bar, say
from twmd_registry.errors import FileError, SignatureError, SpecError
from twmd_registry.files.lines import digest_of_file
from twmd_registry.messages import collect_warnings, visible
from twmd_registry.record.content import Record, read_record
from twmd_registry.registry.diff import labels_of
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.signature import parse_signature

if TYPE_CHECKING:
    from twmd_registry.record.verify import Verification


SHOWN_TEXT = 60
"""Characters of a prediction to show."""
VERIFIED = ("result", "system", "metric", "recorded", "here", "tolerance", "resampled")
"""Columns of a verified record's table; the tolerance is for a segment's score."""
TESTED = {"mean": "mean {:.6g}", "ci": "± {:.3g}", "p_value": "p = {:.3g}"}


@command(
    "verify",
    example="twmd verify scores.json\n"
    "twmd verify scores.json ref.txt -i system_a.txt system_b.txt\n"
    "twmd verify 'twmd|output:f1|...|version:1.0.0' 0.8614 ref.txt -i system_a.txt",
)
@declare.argument("what", metavar="RECORD|SIGNATURE")
@declare.argument("value", required=False, metavar="[VALUE]", callback=lambda _ctx, _param, text: text and text.strip())
@declare.argument("references", nargs=-1, type=declare.INPUT, metavar="[REF]...")
@declare.many("-i --input", "HYP", "One file per system, in the record's order.", type=declare.INPUT)
@declare.source
@declare.columns
@declare.documents
@declare.option("--tolerance", "X", "Largest allowed difference of a segment's score (default: 1e-5 in float32).")
@declare.output_format("text", "json")
@declare.parts
@declare.placement
def verify_command(arguments: Arguments) -> int:
    """Score again, and check whether a record or a published number reproduces (exit status 0) or not (1).

    RECORD is a file written by 'twmd score --record'. By default, the files named in the record are used if they are
    present with the same content. With a SIGNATURE, VALUE is the number exactly as published.
    """
    limits = {"options": options_of(arguments), "local_files": parts_of(arguments), "tolerance": arguments.tolerance}
    if "|" in arguments.what:
        return _verify_number(arguments, limits)
    first = [declare.existing_path(arguments.value)] if arguments.value else []
    arguments.references = [*first, *arguments.references]
    record = read_record(Path(arguments.what))
    if not arguments.references and not arguments.input:
        arguments.references, arguments.input, sources = _find_inputs(record, Path(arguments.what))
        arguments.src = arguments.src or next(iter(sources), None)
    keys = (result.keys for result in record.systems[0].results)
    join_documents = any("align=sentences" in f"align={values.get('align')} {values.get('members')}" for values in keys)
    if join_documents and record.documents and not (arguments.docs or arguments.doc_column):
        hint = "name the documents as before, with --doc-column NAME or --docs FILE"
        raise SpecError(f"{arguments.what}: with align=sentences, a document's rows were scored as one text: {hint}.")
    tasks = read_tasks(arguments, join_documents=join_documents)
    order = [system.name for system in record.systems]
    if sorted(order) == sorted({task.name for task in tasks}):  # by name, in whatever order the files come
        tasks.sort(key=lambda task: order.index(task.name))
    from twmd_registry.record.verify import verify_record

    texts = [(task.predictions, task.references if any(task.references) else None, task.sources) for task in tasks]
    signatures = {result.signature for system in record.systems for result in system.results if result.is_ours}
    resampling = record.resampling
    _announce(signatures, tasks, max(resampling.samples, resampling.resamples) if resampling else 0)
    with progress_bar(total=sum(len(task.predictions) for task in tasks)) as progress:
        verification = verify_record(record, texts, inputs=files_of(tasks), progress=progress, **limits)
    if arguments.format == "json":
        checks = [{"agrees": check.agrees, **check._asdict()} for check in verification.checks]
        head = {"agrees": verification.agrees, "edited": verification.edited}
        print(as_json(head | {"checks": checks, "differences": verification.differences}))
    else:
        say("\n".join(map(visible, _describe(verification))))
    return 0 if verification.agrees else 1


def _find_inputs(record: Record, path: Path) -> list[list[Path]]:
    """Find the references, systems' files and sources named in a record, here or in the record's folder."""
    roles = {"references": "REF", "sources": "--src"}
    recorded = [(roles[file.role], file.name, {file.sha256}) for file in record.inputs if file.role in roles]
    predictions = [file for file in record.inputs if file.role == "predictions"]
    for system in record.systems:
        hashes = {file.sha256 for file in predictions if file.name == Path(system.name).name}
        recorded.append(("-i", system.name, hashes))
    files = dict[str, list[Path]]({"REF": [], "-i": [], "--src": []})
    for role, name, hashes in recorded:
        # The record is untrusted, so its names must not lead out of these folders.
        inside = not Path(name).is_absolute() and ".." not in Path(name).parts
        here = [place for place in (Path(name), path.parent / name) if inside and place.is_file()]
        same = [place for place in here if digest_of_file(place.read_bytes()) in hashes]
        if not same:
            changed = f"{here[0]} ({role}) has changed since it was scored" if here else ""
            missing = f"{name} ({role}) is neither here nor in the record's folder"
            raise FileError(f"{path}: {changed or missing}. Pass all files: RECORD REF... -i HYP..., and --src.")
        files[role].append(same[0])
    return [*files.values()]


def _verify_number(arguments: Arguments, limits: dict[str, Any]) -> int:
    if arguments.value is None:
        line = "twmd verify SIGNATURE VALUE REF -i HYP"
        raise SpecError(f"with a signature, pass the number exactly as published, then the reference files: {line}.")
    from twmd_registry.engine.pairs import Segments
    from twmd_registry.record.verify import match_number, verify_number

    spec = parse_signature(arguments.what).spec
    match_number(arguments.value)  # a file in its position would not be a reference
    tasks = read_tasks(arguments, join_documents=any(member.align for member in spec.members_or_self))
    if len(tasks) != 1:
        raise SpecError(f"a number can be verified for one system only, not for {len(tasks)}: name one file after -i.")
    texts = Segments(tasks[0].predictions, tasks[0].references, tasks[0].sources)
    _announce([arguments.what], tasks)
    scores, agrees, margin, per_cent = verify_number(arguments.what, arguments.value, texts, **limits)
    pinned = spec.is_pinned
    if arguments.format == "json":
        verdict = {"agrees": agrees, "found": scores.score, "signature": str(scores.signature), "margin": margin}
        print(as_json(verdict | {"per_cent": per_cent, "pinned": pinned}))
        return 0 if agrees else 1
    shown = f"{100 * scores.score:.6f} (per cent)" if per_cent else f"{scores.score:.8f}"
    compared = f"{arguments.value} was printed, {shown} is the score here (margin {margin:.2g})"
    say(f"{'agrees' if agrees else 'DIFFERS'}: {compared}")
    print(f"applied: {scores.signature}")
    if not pinned:
        print("The printed signature does not name the content of the model (@...), which may have been another.")
    return 0 if agrees else 1


def _announce(signatures: Iterable[str], tasks: Sequence[ScoringTask], resamples: int = 0) -> None:
    """Announce on stderr what will be computed, because a stranger's signature may be expensive."""
    specs = list[MetricSpec]()
    for signature in signatures:
        with suppress(SignatureError), collect_warnings():  # verification reports these
            specs += parse_signature(signature).spec.members_or_self
    segments = sum(len(task.predictions) for task in tasks)
    parts = [f"segments: {segments:,}; metrics: {len(specs)}", ", ".join(sorted({str(spec.model) for spec in specs}))]
    if sweeps := {str(spec.iterations) for spec in specs if spec.iterations is not None}:
        parts.append(f"Sinkhorn sweeps: {', '.join(sorted(sweeps))}")
    if resamples:
        parts.append(f"{resamples:,} resamples")
    complain("twmd: to compute:", "bold", "; ".join(part for part in parts if part))


def _describe(verification: Verification) -> list[str]:
    rows, below = [], []
    labels = _labels([check.signature for check in verification.checks])
    for check in verification.checks:
        metric = labels[check.signature]
        state = "NOT VERIFIED" if check.found is None else "agrees" if check.agrees else "DIFFERS"
        here = "-" if check.found is None else f"{check.found:.6f}"
        resampled = ", ".join(TESTED[name].format(value) for name, value in check.resampled.items())
        row = state, check.system, metric, f"{check.score:.6f}", here, f"{check.tolerance:g}", resampled
        rows.append([cell or "-" for cell in row])
        lines = [f"  {problem}" for problem in check.problems]
        if check.off:
            lines.append(f"  scores: {check.off} segments differ by more than the tolerance; the largest differences:")
        for segment in check.worst:
            recorded = f"recorded {segment['recorded']:.6f}, here {segment['found']:.6f}"
            text = textwrap.shorten(segment["prediction"], SHOWN_TEXT)
            lines.append(f"    segment {segment['number']}: {recorded}: {text}")
        below += ["", f"{check.system}, {metric}:", *lines] if lines else []
    if differences := verification.differences:
        below += ["", "different from when it was recorded:", *(f"  {difference}" for difference in differences)]
    edited = "EDITED: the record's content does not match its sha256."
    agreeing = sum(check.agrees for check in verification.checks)
    head = [edited, ""] if verification.edited else []
    table = format_table(VERIFIED, rows, "text", names=3).splitlines()
    return [*head, *table, *below, "", f"{agreeing} of {len(rows)} results reproduced."]


def _labels(signatures: Sequence[str]) -> dict[str, str]:
    """Label each signature of a record by metric and differing keys, as a comparison does."""
    specs: dict[str, MetricSpec] = {}
    for signature in signatures:
        with suppress(SignatureError):
            specs[signature] = parse_signature(signature).spec
    names = {signature: re.split(r"[|(]", signature)[0] for signature in signatures}
    return names | dict(zip(specs, labels_of(list(specs.values())), strict=True))
