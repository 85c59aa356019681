"""Cite a record in a paper or model card: sentences, LaTeX, BibTeX, Markdown, badges, metadata."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any
from urllib.parse import quote

from twmd_registry.comparison.cells import SystemScore
from twmd_registry.comparison.lexical import lexical_of_signature
from twmd_registry.comparison.text_table import escape_latex
from twmd_registry.errors import FileError, SignatureError
from twmd_registry.messages import visible
from twmd_registry.record.content import Record, RecordedSystem
from twmd_registry.registry.diff import labels_of
from twmd_registry.registry.metrics import CATALOGUE, bibtex
from twmd_registry.registry.names import LEXICAL_NAMES
from twmd_registry.registry.signature import parse_signature
from twmd_registry.version import __version__

SACREBLEU = bibtex("post2018call")
SOFTWARE = f"""\
@software{{twmd_registry,
  title   = {{twmd-registry: embedding metrics for generated text, with signatures that anybody can re-run}},
  author  = {{{{the twmd-registry authors}}}},
  version = {{{__version__}}}
}}"""


def cite(record: Record, form: str, *, digits: int, task: str, dataset: str | None) -> str:
    """Write a record's scores for publication.

    Args:
        record: The record.
        form: A format of ``twmd cite --format``.
        digits: Decimals of a score.
        task: The Hub's name of the task, for ``eval_results``.
        dataset: The Hub's name of the data set; defaults to the reference file.

    Raises:
        FileError: The record was edited, contradicts itself, or has an unreadable signature.
    """
    from twmd_registry.record.verify import contradictions  # loads torch, which BibTeX for a card does not need

    if problems := contradictions(record):
        raise FileError(f"the record cannot be published: {problems[0]}.")
    by_system = [_describe_system(system, digits) for system in record.systems]
    if form == "eval_results":
        reference = next((file.name for file in record.inputs if file.role == "references"), "unnamed")
        return "\n---\n".join(_metadata(results, task, dataset or reference) for results in by_system)
    results = [score for results in by_system for score in results]
    parts = {
        "sentence": [*(_sentence(scores) for scores in by_system), "", *_signatures(results)],
        "latex": ["\n".join(_latex(by_system))],
        "bibtex": [_entries({score["citation"] for score in results})],
        "markdown": [
            "| system | metric | score |\n| --- | --- | ---: |",
            *map(_table_row, results),
            "",
            *(f"- {line}" for line in _lines(results, "`")),
        ],
        "badge": list(map(_badge, results)),
    }
    return "\n\n".join(parts["latex"] + parts["bibtex"]) if form == "paper" else "\n".join(parts[form])


def _entries(citations: Collection[str]) -> str:
    """Write one BibTeX entry per metric and one for this software, in the order of the catalogue."""
    known = dict.fromkeys([*(metric.citation for metric in CATALOGUE.values()), SACREBLEU])
    return "\n\n".join([*(entry for entry in known if entry in citations), SOFTWARE])


def _describe_system(system: RecordedSystem, digits: int) -> list[dict[str, Any]]:
    scores = [_describe(system, result, digits) for result in system.results if not result.is_external]
    ours = [score for score in scores if "spec" in score]
    for score, label in zip(ours, labels_of([score["spec"] for score in ours]), strict=True):
        score["label"], score["setting"] = label, label.removeprefix(score["metric"]).strip(" #")
    return scores


def _describe(system: RecordedSystem, result: SystemScore, digits: int) -> dict[str, Any]:
    segments = result.counts.get("segments", len(result.scores))
    facts = {"system": system.name, "texts": system.texts, "value": result.score, "segments": segments}
    if result.is_lexical:  # two digits fewer, because SacreBLEU's scale runs to 100
        metric = next(name for name, head in LEXICAL_NAMES.items() if head == result.head)
        score, software = f"{result.score:.{max(digits - 2, 0)}f}", "SacreBLEU"
        _, _, options = (lexical_of_signature(result.signature) or metric).partition(";")
        setting = options.replace(";", " ")
        about = {"metric": metric, "title": result.head, "side": "", "citation": SACREBLEU, "setting": setting}
        about["label"] = f"{metric} {setting}".strip()
        return facts | about | {"score": score, "software": software, "signature": result.signature}
    try:
        signature = parse_signature(result.signature)
    except SignatureError as error:
        raise FileError(f"the record's signature cannot be published: {error}") from error
    name, output = signature.spec.metric, signature.spec.output
    side = f", {output.replace('f1', 'F1')}" if output else ""
    about = {"metric": str(name), "title": CATALOGUE[name].title, "side": side, "citation": CATALOGUE[name].citation}
    about["spec"] = signature.spec  # type: ignore[assignment]
    software = f"twmd-registry {__version__}"
    return facts | about | {"score": f"{result.score:.{digits}f}", "software": software, "signature": str(signature)}


def _number(score: dict[str, Any]) -> str:
    """Write a score with its metric, setting and source: ``0.7184 in BLEU (Post, 2018)``."""
    authors = re.search(r"author\s*=\s*{(.+?)},?\n", score["citation"], re.DOTALL)
    year = re.search(r"year\s*=\s*{(\d+)}", score["citation"])
    source = ""
    if authors and year:
        names = [name.partition(",")[0] for name in re.split(r"\s+and\s+", authors[1])]
        source = f" ({names[0]}{' et al.' * (len(names) > 1)}, {year[1]})"
    return f"{score['score']} in {score['title']}{score['side']}{_setting(score)}{source}"


def _setting(score: dict[str, Any]) -> str:
    return f" with {score['setting'].replace(' ', ', ')}" if score["setting"] else ""


def _lines(scores: list[dict[str, Any]], mark: str) -> list[str]:
    """Write every signature once, marked as code or not, after the label of its setting if there is one."""
    lines = {score["signature"]: f"{score['label']}: " if score["setting"] else "" for score in scores}
    return [f"{label}{mark}{signature}{mark}" for signature, label in lines.items()]


def _sentence(scores: list[dict[str, Any]], notes: Sequence[str] = (), escape: Callable[[str], str] = str) -> str:
    """Write a system's scores as one sentence, with a footnote after each score."""
    numbers = [escape(_number(score)) for score in scores]
    numbers = [f"{number}{note}" for number, note in zip(numbers, notes or [""] * len(numbers), strict=True)]
    listed = numbers[0] if len(numbers) == 1 else f"{', '.join(numbers[:-1])} and {numbers[-1]}"
    first = scores[0]
    return f"{escape(visible(first['system']))} scores {listed} over {first['segments']} segments."


def _signatures(scores: list[dict[str, Any]]) -> list[str]:
    """Write the software and every signature once."""
    software = " and ".join(dict.fromkeys(score["software"] for score in scores))
    return [f"Computed by {software}; signatures:", *_lines(scores, "")]


def _latex(by_system: list[list[dict[str, Any]]]) -> list[str]:
    """Write a sentence per system. A footnote has every signature at its first mention."""
    sentences, known = [], set[str]()
    for scores in by_system:
        signatures = [score["signature"] for score in scores]
        texts = [f"\\footnote{{\\raggedright\\texttt{{{escape_latex(line)}}}}}" for line in signatures]
        notes = ["" if line in known else text for line, text in zip(signatures, texts, strict=True)]
        known.update(signatures)
        sentences.append(_sentence(scores, notes, escape_latex))
    return sentences


def _table_row(score: dict[str, Any]) -> str:
    return f"| {_escape_markdown(score['system'])} | {_escape_markdown(score['label'])} | {score['score']} |"


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|])", r"\\\1", text).replace("\n", " ")


def _badge(score: dict[str, Any]) -> str:
    parts = (quote(score[key].replace("-", "--").replace("_", "__"), safe="") for key in ("label", "score"))
    address, title = f"https://img.shields.io/badge/{'-'.join(parts)}-blue", score["signature"].replace('"', "%22")
    return f'![{_escape_markdown(score["system"])}: {_escape_markdown(score["label"])}]({address} "{title}")'


def _metadata(results: list[dict[str, Any]], task: str, dataset: str) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    entries = [
        EvalResult(
            task_type=task,
            dataset_type=dataset,
            dataset_name=dataset,
            metric_type=result["metric"],
            metric_name=f"{result['title']}{_setting(result)}",
            metric_value=result["value"],
            metric_args={"signature": result["signature"], "texts_sha256": result["texts"]},
        )
        for result in results
    ]
    return str(ModelCardData(model_name=results[0]["system"], eval_results=entries).to_yaml())
