"""``twmd verify``."""

from __future__ import annotations

import hashlib
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli.declare import (
    FINITE,
    INPUT,
    Arguments,
    argument,
    columns,
    command,
    many,
    option,
    output_format,
    parts,
    run_options,
)
from twmd_registry.cli.output import as_json
from twmd_registry.cli.requested import options_of, parts_of
from twmd_registry.cli.tasks import read_tasks
from twmd_registry.cli.terminal import Style, matches, progress_bar, say
from twmd_registry.errors import FileError, SpecError, visible
from twmd_registry.record.file import read_record
from twmd_registry.registry.artifacts import Parts
from twmd_registry.registry.options import RunOptions

if TYPE_CHECKING:
    from twmd_registry.record.content import Record
    from twmd_registry.record.verify import Verification, VerifiedEntry

SHOWN_TEXT = 60
"""Characters of a prediction that are shown."""
VERDICTS = (matches(r"^agrees\b", Style.GOOD), matches(r"^(?:DIFFERS|EDITED|NOT VERIFIED)\b", Style.BAD))
"""What a terminal shows in colour."""


@command(
    "verify",
    example="twmd verify scores.json\n"
    "twmd verify scores.json --refs ref.txt --hyps system_a.txt system_b.txt\n"
    "twmd verify 'twmd|output:f1|...|version:0.3.0' 0.8614 ref.txt -i system_a.txt",
)
@argument("what", metavar="RECORD|SIGNATURE")
@argument("value", required=False, metavar="[VALUE]")
@argument("references", nargs=-1, type=INPUT, metavar="[REF]...")
@many("--refs", type=INPUT, metavar="REF", help="Reference files, as well.")
@many("-i", "--input", "--hyps", "input", type=INPUT, metavar="HYP", help="One file per system, in the record's order.")
@columns
@option(
    "--tolerance", type=FINITE, metavar="X", help="Largest difference of a segment's score (default: 1e-5 in float32)."
)
@output_format("text", "json")
@parts
@run_options
def verify_command(arguments: Arguments) -> int:
    """Score again, and say whether a record, or a number from a paper, holds (exit status 0) or not (1).

    RECORD is a file that 'twmd score --record' wrote. Without files, those that it names are taken, if they are here
    with the same content.
    Beside a SIGNATURE, VALUE is the number as it was printed.
    """
    options = options_of(arguments)
    parts = parts_of(arguments)
    if "|" in arguments.what:
        return _verify_number(arguments, options, parts)
    positional = [INPUT.convert(arguments.value, None, None)] if arguments.value else []
    arguments.references = [*positional, *arguments.references, *arguments.refs]
    record = read_record(Path(arguments.what))
    if not arguments.references and not arguments.input:
        arguments.references, arguments.input = find_inputs(record, Path(arguments.what))
    tasks = read_tasks(arguments)
    files = tuple(dict.fromkeys(file for task in tasks for file in task.files))
    from twmd_registry.plugins.sacrebleu.compare import verify_record

    texts = [(task.system.predictions, task.references) for task in tasks]
    with progress_bar(total=sum(len(predictions) for predictions, _ in texts)) as progress:
        found = verify_record(
            record, texts, inputs=files, options=options, parts=parts, tolerance=arguments.tolerance, progress=progress
        )
    if arguments.format == "json":
        print(as_json(_as_dict(found)))
    else:
        say("\n".join(map(visible, _report(found))), *VERDICTS)
    return 0 if found.agrees else 1


def find_inputs(record: Record, path: Path) -> tuple[list[Path], list[Path]]:
    """Find the files that a record names, in the working folder or in the record's.

    Args:
        record: The record.
        path: Where it was read.

    Returns:
        The reference files, and the file of every system.

    Raises:
        FileError: A file is not here, or has another content than the recorded one; names every such file.
    """
    wanted = [("--refs", one.name, {one.sha256}) for one in record.inputs if one.role == "references"]
    for system in record.systems:
        hashes = {
            one.sha256 for one in record.inputs if one.role == "predictions" and one.name == Path(system.name).name
        }
        wanted.append(("-i", system.name, hashes))
    found, problems = dict[str, list[Path]]({"--refs": [], "-i": []}), []
    for role, name, hashes in wanted:
        # The record is untrusted: no name in it leads out of these folders.
        inside = not Path(name).is_absolute() and ".." not in Path(name).parts
        here = [place for place in (Path(name), path.parent / name) if inside and place.is_file()]
        same = next((place for place in here if hashlib.sha256(place.read_bytes()).hexdigest() in hashes), None)
        if same is not None:
            found[role].append(same)
        else:
            problems.append(f"{name} ({role}) {'is another file than was scored' if here else 'is not here'}")
    if problems:
        places = " and ".join(dict.fromkeys(str(place) for place in (Path(), path.parent)))
        raise FileError(
            f"{path}: files that it names, looked for in {places}: {'; '.join(dict.fromkeys(problems))}. Give "
            "all files by --refs and -i."
        )
    return found["--refs"], found["-i"]


def _verify_number(arguments: Arguments, options: RunOptions, parts: Parts) -> int:
    if arguments.value is None:
        raise SpecError(
            "beside a signature, give the number as it is printed, then the reference files: twmd verify "
            "SIGNATURE VALUE REF -i HYP."
        )
    arguments.references = [*arguments.references, *arguments.refs]
    tasks = read_tasks(arguments)
    if len(tasks) != 1:
        raise SpecError(f"one number belongs to one system, not to {len(tasks)}.")
    from twmd_registry.engine.pairs import Segments
    from twmd_registry.record.verify import verify_number
    from twmd_registry.registry.signature import parse_signature
    from twmd_registry.registry.spec import is_pinned

    texts = Segments(tasks[0].system.predictions, tasks[0].references)
    scores, agrees, margin, per_cent = verify_number(
        arguments.what, arguments.value, texts, options=options, parts=parts, tolerance=arguments.tolerance
    )
    pinned = is_pinned(parse_signature(arguments.what).spec)
    if arguments.format == "json":
        verdict = {"agrees": agrees, "found": scores.score, "signature": str(scores.signature), "margin": margin}
        print(as_json(verdict | {"per_cent": per_cent, "pinned": pinned}))
        return 0 if agrees else 1
    shown = f"{100 * scores.score:.6f} (per cent)" if per_cent else f"{scores.score:.8f}"
    say(
        (
            f"{'agrees' if agrees else 'DIFFERS'}: {arguments.value} was printed, {shown} is the score here "
            f"(margin {margin:.2g})"
        ),
        *VERDICTS,
    )
    print(f"applied: {scores.signature}")
    if not pinned:
        print(
            "The printed signature does not say which content of the model was used (@...): it may have been another."
        )
    return 0 if agrees else 1


def _report(found: Verification) -> list[str]:
    lines = ["EDITED  the record's content does not have the sha256 that it was written with"] if found.edited else []
    for check in found.checks:
        lines += _report_check(check)
    if found.differences:
        lines += ["", "different from when it was recorded:", *(f"  {difference}" for difference in found.differences)]
    held = sum(check.agrees for check in found.checks)
    return [*lines, "", f"{held} of {len(found.checks)} results hold."]


def _report_check(check: VerifiedEntry) -> list[str]:
    metric = check.signature.partition("|")[0]
    if check.found is None:
        head = f"NOT VERIFIED  {check.system}  {metric}  {check.score:.6f} was recorded and could not be computed"
    else:
        word = "agrees" if check.agrees else "DIFFERS"
        head = (
            f"{word}  {check.system}  {metric}  recorded {check.score:.6f}, here {check.found:.6f} (tolerance per "
            f"segment {check.tolerance:g})"
        )
    head += "".join(f"; {name} {value:.6g}" for name, value in check.resampled.items())
    lines = [head, *(f"  {problem}" for problem in check.problems)]
    if check.off:
        lines.append(f"  scores: {check.off} segments are off; the worst:")
        lines += [
            f"    segment {one.number}: recorded {one.recorded:.6f}, here {one.found:.6f}: "
            f"{textwrap.shorten(one.prediction, SHOWN_TEXT)}"
            for one in check.worst
        ]
    return lines


def _as_dict(found: Verification) -> dict[str, object]:
    checks = [
        {
            "agrees": check.agrees,
            **check._asdict(),
            "worst": [one._asdict() for one in check.worst],
            "resampled": dict(check.resampled),
        }
        for check in found.checks
    ]
    return {"agrees": found.agrees, "edited": found.edited, "checks": checks, "differences": found.differences}
