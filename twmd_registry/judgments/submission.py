"""What a metric submits to the metrics shared task: scores of every output of a test set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from twmd_registry.errors import FileError
from twmd_registry.judgments.reader import read_lines
from twmd_registry.judgments.translations import outputs_of, read_documents, read_references, reference_names

ALL = "all"
"""The domain of a score of all segments, and of segments in a test set without documents."""


class TestSet(NamedTuple):
    """The texts of a language pair.

    Attributes:
        pair: Its name, as ``en-de``.
        domains: The domain of every segment.
        documents: The document of every segment.
        references: By name, a text per segment.
        outputs: By system, a text per segment; references that are scored like systems are among them.
    """

    pair: str
    domains: list[str]
    documents: list[str]
    references: dict[str, list[str]]
    outputs: dict[str, list[str]]


class SystemScores(NamedTuple):
    """Scores of one output against one reference.

    Attributes:
        pair: The language pair.
        reference: The name of the reference.
        system: The name of the system.
        score: Of all segments.
        segments: A score per segment.
    """

    pair: str
    reference: str
    system: str
    score: float
    segments: Sequence[float]


def read_test_sets(folder: Path) -> list[TestSet]:
    """Read every language pair of a test set.

    Args:
        folder: ``references/PAIR.NAME.txt`` and ``system-outputs/PAIR/SYSTEM.txt`` have a line per segment, as has
            ``documents/PAIR.docs``, if there is one: a domain and a document.

    Raises:
        FileError: There is no output, a pair has no reference, files of a pair have different numbers of lines, or a
            line names no domain and document; names the file.
    """
    pairs = sorted(path.name for path in (folder / "system-outputs").glob("*") if path.is_dir())
    if not pairs:
        raise FileError(f"{folder}/system-outputs holds no folder of a language pair.")
    return [_read_test_set(folder, pair) for pair in pairs]


def _read_test_set(folder: Path, pair: str) -> TestSet:
    names = reference_names(folder, pair)
    if not names:
        raise FileError(f"{folder}/references holds no {pair}.NAME.txt.")
    references = {name: read_references(folder, pair, name) for name in names}
    outputs = {system: read_lines(path) for system, path in outputs_of(folder, pair).items()}
    segments = len(references[names[0]])
    for kind, texts in (("reference", references), ("output", outputs)):
        for name, lines in texts.items():
            if len(lines) != segments:
                raise FileError(f"{folder}: {kind} {name} of {pair} has {len(lines)} lines; expected {segments}.")
    known = (folder / "documents" / f"{pair}.docs").is_file()
    rows = read_documents(folder, pair) if known else [(ALL, pair)] * segments
    domains, documents = map(list, zip(*rows, strict=True))
    return TestSet(pair, domains, documents, references, outputs)


def score_test_sets(
    tests: Sequence[TestSet], score: Callable[[list[str], list[str]], tuple[float, Sequence[float]]]
) -> Iterator[SystemScores]:
    """Score every output against every reference but itself.

    Args:
        tests: The test sets.
        score: From predictions and references to the score of all segments, and of each.
    """
    for test in tests:
        for reference, texts in test.references.items():
            for system, lines in test.outputs.items():
                if system != reference:
                    yield SystemScores(test.pair, reference, system, *score(lines, texts))


def submission_files(name: str, year: str, tests: Sequence[TestSet], scored: Sequence[SystemScores]) -> dict[str, str]:
    """Return the files of a submission, by path.

    ``NAME.sys.score`` and ``NAME.seg.score`` are tables of the shared task: metric, language pair, test set, domain,
    (document,) reference, system, (segment number,) score; a domain's score of a system is the mean of its segments.
    ``metric-scores/PAIR/NAME-REFERENCE.{sys,domain,seg}.score`` are what mt-metrics-eval reads.

    Args:
        name: Of the metric.
        year: Of the test set, as ``wmt23``.
        tests: The test sets.
        scored: Their scores.
    """
    by_pair = {test.pair: test for test in tests}
    files: dict[str, list[tuple[object, ...]]] = {f"{name}.sys.score": [], f"{name}.seg.score": []}
    for own in scored:
        test, folder = by_pair[own.pair], f"metric-scores/{own.pair}/{name}-{own.reference}"
        by_domain = dict[str, list[float]]()
        for domain, score in zip(test.domains, own.segments, strict=True):
            by_domain.setdefault(domain, []).append(score)
        means = {domain: sum(scores) / len(scores) for domain, scores in by_domain.items()}
        start = name, own.pair, year
        for domain, mean in (means | {ALL: own.score}).items():
            files[f"{name}.sys.score"].append((*start, domain, own.reference, own.system, mean))
        files.setdefault(f"{folder}.sys.score", []).append((own.system, own.score))
        files.setdefault(f"{folder}.domain.score", []).extend(
            (domain, own.system, mean) for domain, mean in means.items()
        )
        for number, score in enumerate(own.segments, 1):
            place = test.domains[number - 1], test.documents[number - 1], own.reference, own.system, number
            files[f"{name}.seg.score"].append((*start, *place, score))
            files.setdefault(f"{folder}.seg.score", []).append((own.system, score))
    return {path: "".join("\t".join(map(str, row)) + "\n" for row in rows) for path, rows in files.items()}
