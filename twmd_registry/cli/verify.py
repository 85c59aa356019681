"""``twmd verify`` and ``twmd diff``."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from twmd_registry.cli.options import options_of
from twmd_registry.cli.score import parts_of
from twmd_registry.cli.tasks import Task, read_tasks
from twmd_registry.cli.terminal import Style, matches, say
from twmd_registry.errors import SpecError, visible
from twmd_registry.plugins.sacrebleu.verify import verify_record
from twmd_registry.record.file import read_record
from twmd_registry.record.verify import Check, Texts, Verification, verify_number
from twmd_registry.registry.diff import Matter, compare
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.parts import Parts

SHOWN_TEXT = 60
"""Characters of a prediction that are shown."""
VERDICTS = (matches(r"^agrees\b", Style.GOOD), matches(r"^(?:DIFFERS|EDITED|NOT VERIFIED)\b", Style.BAD))
"""What a terminal shows in colour."""


def run_verify(arguments: argparse.Namespace) -> int:
    """Verify a record or a printed number; 0 when it holds."""
    options = options_of(arguments)
    parts = parts_of(arguments)
    if "|" in arguments.what:
        return _verify_number(arguments, options, parts)
    positional = [Path(arguments.value)] if arguments.value else []
    arguments.references = [*positional, *arguments.references, *arguments.refs]
    record = read_record(Path(arguments.what))
    tasks = read_tasks(arguments)
    files = tuple(dict.fromkeys(file for task in tasks for file in task.files))
    found = verify_record(record, [_texts(task) for task in tasks], inputs=files, options=options, parts=parts, tolerance=arguments.tolerance)
    say("\n".join(map(visible, _report(found))), *VERDICTS)
    return 0 if found.agrees else 1


def _verify_number(arguments: argparse.Namespace, options: RunOptions, parts: Parts) -> int:
    if arguments.value is None:
        raise SpecError("beside a signature, give the number as it is printed, then the reference files: twmd verify SIGNATURE VALUE REF -i HYP.")
    arguments.references = [*arguments.references, *arguments.refs]
    tasks = read_tasks(arguments)
    if len(tasks) != 1:
        raise SpecError(f"one number belongs to one system, not to {len(tasks)}.")
    found = verify_number(arguments.what, arguments.value, _texts(tasks[0]), options=options, parts=parts, tolerance=arguments.tolerance)
    shown = f"{100 * found.found:.6f} (per cent)" if found.per_cent else f"{found.found:.8f}"
    say(f"{'agrees' if found.agrees else 'DIFFERS'}: {arguments.value} was printed, {shown} is the score here (margin {found.margin:.2g})", *VERDICTS)
    print(f"applied: {found.signature}")
    if not found.pinned:
        print("The printed signature does not say which content of the model was used (@...): it may have been another.")
    return 0 if found.agrees else 1


def _texts(task: Task) -> Texts:
    return Texts(task.system.predictions, task.references)


def _report(found: Verification) -> list[str]:
    lines = ["EDITED  the record's content does not have the sha256 that it was written with"] if found.edited else []
    for check in found.checks:
        lines += _report_check(check)
    if found.differences:
        lines += ["", "different from when it was recorded:", *(f"  {difference}" for difference in found.differences)]
    held = sum(check.agrees for check in found.checks)
    return [*lines, "", f"{held} of {len(found.checks)} results hold."]


def _report_check(check: Check) -> list[str]:
    metric = check.signature.partition("|")[0]
    if check.found is None:
        head = f"NOT VERIFIED  {check.system}  {metric}  {check.score:.6f} was recorded and could not be computed"
    else:
        word = "agrees" if check.agrees else "DIFFERS"
        head = f"{word}  {check.system}  {metric}  recorded {check.score:.6f}, here {check.found:.6f} (tolerance per segment {check.tolerance:g})"
    head += "".join(f"; {name} {value:.6g}" for name, value in check.resampled.items())
    lines = [head, *(f"  {problem}" for problem in check.problems)]
    if check.off:
        lines.append(f"  scores: {check.off} segments are off; the worst:")
        lines += [
            f"    segment {one.number}: recorded {one.recorded:.6f}, here {one.found:.6f}: {textwrap.shorten(one.prediction, SHOWN_TEXT)}"
            for one in check.worst
        ]
    return lines


def run_diff(arguments: argparse.Namespace) -> int:
    """Compare two signatures; 0 when their numbers may be compared."""
    found = compare(arguments.one, arguments.other)
    if not found.differences:
        print("They say the same.")
    marks = {Matter.YES: "-", Matter.NO: "=", Matter.UNKNOWN: "?"}
    for difference in found.differences:
        print(f"{marks[difference.matters]} {visible(difference.what)}")
    if not found.comparable:
        print("\nTheir numbers may NOT be compared.")
        return 1
    print(f"\nTheir numbers may be compared (on the same texts{'' if found.certain else ', and if the model was the same'}).")
    return 0
