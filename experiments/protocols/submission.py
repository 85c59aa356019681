"""Files of a submission to the metrics shared task, from a test set in the layout of mt-metrics-eval."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from twmd_registry.errors import FileError
from twmd_registry.judgments.mt_metrics_eval import ALL, SOURCE, LanguagePair


class SystemOutput(NamedTuple):
    """An output to score: its reference's and system's names, and its texts; None if missing."""

    pair: LanguagePair
    reference: str
    system: str
    predictions: list[str]
    references: list[str] | None
    sources: list[str] | None


def read_outputs(folder: Path, compared: Collection[str | None] = (None,)) -> list[SystemOutput]:
    """Read every output of a test set with every other reference. A reference may also be an output.

    `compared` has the values of the key ``against``: sources are read for ``source``, and references for None. Without
    references an output is read once, and its reference is called `SOURCE`. A missing text is read as an empty one,
    because every segment needs a score.
    """
    names = sorted(path.name for path in (folder / "system-outputs").glob("[!.]*") if path.is_dir())
    if not names:
        raise FileError(f"{folder}/system-outputs has no folder of a language pair.")
    result = list[SystemOutput]()
    for pair in (LanguagePair(folder, name) for name in names):
        sources = _fill(pair.read_texts(pair.sources)) if "source" in compared else None
        references: dict[str, list[str] | None] = {SOURCE: None}
        if None in compared:
            references = {name: _fill(pair.read_reference(name)) for name in pair.references}
        if not references:
            raise FileError(f"{folder}/references has no {pair.name}.NAME.txt or .jsonl.")
        outputs = {system: _fill(pair.read_texts(path)) for system, path in pair.outputs.items()}
        if pair.docs.is_file() and any(domain == ALL for domain, _ in pair.documents):
            raise FileError(f"{pair.docs}: {ALL!r} is not a domain: in the shared task it means all segments.")
        for name in (pair.name, *references, *outputs):
            if not name.isprintable() or len(name.split()) != 1:
                raise FileError(f"{folder}: {name!r} of {pair.name}: names in score files cannot have white space.")
        named = [(name, system) for name in references for system in outputs if system != name]
        if not named:
            raise FileError(f"system-outputs/{pair.name} has no SYSTEM.txt or SYSTEM.jsonl to score.")
        result += [
            SystemOutput(pair, name, system, outputs[system], references[name], sources) for name, system in named
        ]
    return result


def _fill(texts: Iterable[str | None]) -> list[str]:
    return [text or "" for text in texts]


def submission_files(
    name: str, year: str, outputs: Sequence[SystemOutput], scores: Sequence[tuple[float, Sequence[float]]]
) -> dict[str, str]:
    """Return the files of a submission, by path. `scores` has the total and the per-segment scores of every output.

    ``NAME.sys.score`` and ``NAME.seg.score`` are tables of the shared task: metric, language pair, test set, domain,
    (document,) reference, system, (segment number,) score. A system's score in a domain is the mean of its segments.
    ``metric-scores/PAIR/NAME-REFERENCE.{sys,domain,seg}.score`` are in mt-metrics-eval's format.
    """
    files: dict[str, list[tuple[object, ...]]] = {f"{name}.sys.score": [], f"{name}.seg.score": []}
    for output, (score, segments) in zip(outputs, scores, strict=True):
        pair, reference, system = output.pair, output.reference, output.system
        documents = pair.documents if pair.docs.is_file() else [(ALL, pair.name)] * pair.segments
        folder, by_domain = f"metric-scores/{pair.name}/{name}-{reference}", dict[str, list[float]]()
        for (domain, _), segment in zip(documents, segments, strict=True):
            by_domain.setdefault(domain, []).append(segment)
        means = {domain: sum(values) / len(values) for domain, values in by_domain.items()}
        start = name, pair.name, year
        files[f"{name}.sys.score"] += [
            (*start, domain, reference, system, mean) for domain, mean in (means | {ALL: score}).items()
        ]
        files.setdefault(f"{folder}.sys.score", []).append((system, score))
        files.setdefault(f"{folder}.domain.score", []).extend((domain, system, mean) for domain, mean in means.items())
        files[f"{name}.seg.score"] += [
            (*start, *place, reference, system, number, segment)
            for number, (place, segment) in enumerate(zip(documents, segments, strict=True), 1)
        ]
        files.setdefault(f"{folder}.seg.score", []).extend((system, segment) for segment in segments)
    return {path: "".join("\t".join(map(str, row)) + "\n" for row in rows) for path, rows in files.items()}
