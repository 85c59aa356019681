"""What a paper or a model card needs to publish a record: sentence, LaTeX with footnotes, BibTeX, Markdown, badge,
metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote

from twmd_registry.errors import FileError, SignatureError, visible
from twmd_registry.record.content import Record, RecordedScores
from twmd_registry.record.verify import contradictions
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName, Output
from twmd_registry.registry.signature import parse_signature
from twmd_registry.report.bibtex import SACREBLEU, bibtex
from twmd_registry.version import __version__


class CitedDataset(NamedTuple):
    """Where the texts of a record come from, for the Hub's metadata.

    Attributes:
        task: The Hub's name of the task, ``text-generation`` or ``translation``, say.
        id: The data set's id on the Hub, or any name; None for the name of the reference file.
    """

    task: str = "text-generation"
    id: str | None = None


def cite(record: Record, form: str, *, digits: int = 4, dataset: CitedDataset | None = None) -> str:
    """Write what it takes to publish a record.

    Args:
        record: The record.
        form: One of `FORMS`.
        digits: Digits after the point.
        dataset: For ``eval_results``.

    Raises:
        FileError: The record was edited, contradicts itself, or holds a signature that is none.
    """
    if found := contradictions(record):
        raise FileError(f"the record cannot be published: {found[0]}.")
    return FORMS[form](record, digits, dataset or CitedDataset())


class _CitedResult(NamedTuple):
    """One system by one metric, as it is published.

    Attributes:
        system: The system's name.
        result: Its scores, the signature as this version writes it.
        metric: The metric's name, as metadata have it.
        title: Its name as the field writes it.
        side: Of a two-sided metric, which side is the score.
        citation: BibTeX.
        software: What computed it.
        own: The metric, where it is of this package.
    """

    system: str
    result: RecordedScores
    metric: str
    title: str
    side: str
    citation: str
    software: str
    own: MetricName | None

    def score(self, digits: int) -> str:
        """The score to so many digits; two fewer on SacreBLEU's scale to 100, where they mean the same."""
        return f"{self.result.score:.{digits if self.own else max(digits - 2, 0)}f}"


def _each(record: Record) -> Iterator[_CitedResult]:
    for system in record.systems:
        for result in system.results:
            yield _lexical(system.name, result) if result.is_lexical else _own(system.name, result)


def _lexical(system: str, result: RecordedScores) -> _CitedResult:
    metric = next(name for name, head in LEXICAL_NAMES.items() if head == result.head)
    return _CitedResult(system, result, metric, result.head, "", SACREBLEU, "SacreBLEU", None)


def _own(system: str, result: RecordedScores) -> _CitedResult:
    try:
        signature = parse_signature(result.signature)
    except SignatureError as error:
        raise FileError(f"the record's signature cannot be published: {error}") from error
    metric, output = signature.spec.metric, signature.spec.output
    side = f", {'F1' if output is Output.F1 else output}" if output else ""
    software = f"{metric} of twmd-registry {__version__}"
    own = replace(result, signature=str(signature))
    return _CitedResult(
        system, own, str(metric), CATALOGUE[metric].title, side, CATALOGUE[metric].citation, software, metric
    )


def _sentences(record: Record, digits: int) -> Iterator[tuple[str, str]]:
    """Per system and metric a sentence, and the signature that belongs to it."""
    for cited in _each(record):
        what = f"{cited.score(digits)} in {cited.title}{cited.side}{_who(cited.citation)}"
        where = f"over {cited.result.counts.get('segments', len(cited.result.scores))} segments ({cited.software})"
        yield f"{visible(cited.system)} scores {what} {where}", cited.result.signature


def _sentence(record: Record, digits: int, _dataset: CitedDataset) -> str:
    return "\n".join(
        f"{sentence}, with the signature {signature}." for sentence, signature in _sentences(record, digits)
    )


def _who(citation: str) -> str:
    """Authors and year of a BibTeX entry, as they stand in a sentence."""
    authors = re.search(r"author\s*=\s*{(.+?)},?\n", citation)
    year = re.search(r"year\s*=\s*{(\d+)}", citation)
    if not authors or not year:
        return ""
    names = [name.partition(",")[0] for name in authors[1].split(" and ")]
    return f" ({names[0] if len(names) == 1 else f'{names[0]} et al.'}, {year[1]})"


def _latex(record: Record, digits: int, _dataset: CitedDataset) -> str:
    def footnote(signature: str) -> str:
        return f"\\footnote{{\\raggedright\\texttt{{{_escape_latex(signature)}}}}}"

    return "\n".join(
        f"{_escape_latex(sentence)}.{footnote(signature)}" for sentence, signature in _sentences(record, digits)
    )


def _escape_latex(text: str) -> str:
    """Every character as itself in LaTeX; a line may break after each field."""
    special = {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "|": r"\textbar{}\allowbreak{}",
    }
    escaped = (special.get(c, f"\\{c}" if c in "_%#&${}" else c) for c in text)
    return "".join(escaped)


def _bibtex(record: Record, _digits: int, _dataset: CitedDataset) -> str:
    metrics = [cited.own for cited in _each(record)]
    return bibtex(filter(None, metrics), sacrebleu=None in metrics)


def _paper(record: Record, digits: int, dataset: CitedDataset) -> str:
    return f"{_latex(record, digits, dataset)}\n\n{_bibtex(record, digits, dataset)}"


def _markdown(record: Record, digits: int, _dataset: CitedDataset) -> str:
    rows = [
        f"| {_escape_markdown(cited.system)} | {cited.metric} | {cited.score(digits)} | "
        f"`{cited.result.signature.replace('|', chr(92) + '|')}` |"
        for cited in _each(record)
    ]
    return "\n".join(["| system | metric | score | signature |", "| --- | --- | ---: | --- |", *rows])


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|])", r"\\\1", text).replace("\n", " ")


def _badge(record: Record, digits: int, _dataset: CitedDataset) -> str:
    lines = []
    for cited in _each(record):
        label, value = (
            quote(text.replace("-", "--").replace("_", "__"), safe="") for text in (cited.metric, cited.score(digits))
        )
        title = cited.result.signature.replace('"', "%22")
        lines.append(
            f'![{_escape_markdown(cited.system)}: {cited.metric}](https://img.shields.io/badge/{label}-{value}-blue "{title}")'
        )
    return "\n".join(lines)


def _eval_results(record: Record, _digits: int, dataset: CitedDataset) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    reference = next((one.name for one in record.inputs if one.role == "references"), "unnamed")
    cards = []
    for system in record.systems:
        results = [
            EvalResult(
                task_type=dataset.task,
                dataset_type=dataset.id or reference,
                dataset_name=dataset.id or reference,
                metric_type=cited.metric,
                metric_name=cited.title,
                metric_value=cited.result.score,
                metric_args={"signature": cited.result.signature, "texts_sha256": system.texts},
            )
            for cited in _each(replace(record, systems=(system,)))
        ]
        cards.append(ModelCardData(model_name=system.name, eval_results=results).to_yaml())
    return "\n---\n".join(cards)


FORMS: dict[str, Callable[[Record, int, CitedDataset], str]] = {
    "paper": _paper,
    "sentence": _sentence,
    "latex": _latex,
    "bibtex": _bibtex,
    "markdown": _markdown,
    "badge": _badge,
    "eval_results": _eval_results,
}
"""Every form by name; a test holds the command line's choices equal."""
