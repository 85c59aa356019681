"""What a metric submits to the metrics shared task: scores of every output of a test set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from twmd_registry.errors import FileError
from twmd_registry.judgments.translations import (
    count_segments,
    outputs_of,
    read_documents,
    read_references,
    read_segments,
    reference_names,
)

ALL = "all"
"""The domain of a score of all segments, and of segments in a test set without documents."""


class TestSet(NamedTuple):
    """The texts of a language pair: domain and document of every segment, references by name, and outputs by system;
    references that are scored like systems are among these.
    """

    pair: str
    domains: list[str]
    documents: list[str]
    references: dict[str, list[str]]
    outputs: dict[str, list[str]]


Output = tuple[TestSet, str, str]
"""An output of a test set: the name of the reference that it is scored against, and of the system."""


def read_test_sets(folder: Path) -> list[TestSet]:
    """Read every language pair of a test set.

    ``references/PAIR.NAME.txt`` and ``system-outputs/PAIR/SYSTEM.txt`` have a line per segment, as has
    ``documents/PAIR.docs``, if there is one: a domain and a document. Raises FileError, which names the file.
    """
    pairs = sorted(path.name for path in (folder / "system-outputs").glob("*") if path.is_dir())
    if not pairs:
        raise FileError(f"{folder}/system-outputs holds no folder of a language pair.")
    return [_read_test_set(folder, pair) for pair in pairs]


def _read_test_set(folder: Path, pair: str) -> TestSet:
    names = reference_names(folder, pair)
    if not names:
        raise FileError(f"{folder}/references holds no {pair}.NAME.txt.")
    segments = count_segments(folder, pair)
    references = {name: read_references(folder, pair, name) for name in names}
    outputs = {system: read_segments(path, segments) for system, path in outputs_of(folder, pair).items()}
    known = (folder / "documents" / f"{pair}.docs").is_file()
    rows = read_documents(folder, pair) if known else [(ALL, pair)] * segments
    if known and any(domain == ALL for domain, _ in rows):
        raise FileError(
            f"{folder}/documents/{pair}.docs: {ALL!r} is no domain: the shared task means all segments by it."
        )
    for name in (pair, *references, *outputs):
        if not name.isprintable() or len(name.split()) != 1:
            raise FileError(f"{folder}: {name!r} of {pair}: names in score files have no white space.")
    domains, documents = map(list, zip(*rows, strict=True))
    return TestSet(pair, domains, documents, references, outputs)


def list_outputs(tests: Sequence[TestSet]) -> list[Output]:
    """List every output with every reference but itself; raises FileError where a language pair has none."""
    every = [(test, reference) for test in tests for reference in test.references]
    found = [(test, reference, system) for test, reference in every for system in test.outputs if system != reference]
    if empty := {test.pair for test in tests} - {test.pair for test, *_ in found}:
        raise FileError(f"system-outputs/{min(empty)} holds no SYSTEM.txt to be scored.")
    return found


def submission_files(
    name: str, year: str, outputs: Sequence[Output], scores: Sequence[tuple[float, Sequence[float]]]
) -> dict[str, str]:
    """Return the files of a submission, by path.

    ``NAME.sys.score`` and ``NAME.seg.score`` are tables of the shared task: metric, language pair, test set, domain,
    (document,) reference, system, (segment number,) score; a domain's score of a system is the mean of its segments.
    ``metric-scores/PAIR/NAME-REFERENCE.{sys,domain,seg}.score`` are what mt-metrics-eval reads. `scores` has, by
    output, the score of all segments and of each.
    """
    files: dict[str, list[tuple[object, ...]]] = {f"{name}.sys.score": [], f"{name}.seg.score": []}
    for (test, reference, system), (score, segments) in zip(outputs, scores, strict=True):
        folder, by_domain = f"metric-scores/{test.pair}/{name}-{reference}", dict[str, list[float]]()
        for domain, segment in zip(test.domains, segments, strict=True):
            by_domain.setdefault(domain, []).append(segment)
        means = {domain: sum(own) / len(own) for domain, own in by_domain.items()}
        start = name, test.pair, year
        files[f"{name}.sys.score"] += [
            (*start, domain, reference, system, mean) for domain, mean in (means | {ALL: score}).items()
        ]
        files.setdefault(f"{folder}.sys.score", []).append((system, score))
        files.setdefault(f"{folder}.domain.score", []).extend((domain, system, mean) for domain, mean in means.items())
        places = zip(test.domains, test.documents, segments, strict=True)
        files[f"{name}.seg.score"] += [
            (*start, domain, document, reference, system, number, segment)
            for number, (domain, document, segment) in enumerate(places, 1)
        ]
        files.setdefault(f"{folder}.seg.score", []).extend((system, segment) for segment in segments)
    return {path: "".join("\t".join(map(str, row)) + "\n" for row in rows) for path, rows in files.items()}
