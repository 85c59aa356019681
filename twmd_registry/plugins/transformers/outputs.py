"""Files of an evaluation: signatures, texts and records beside checkpoints, results in the model card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from twmd_registry.engine.pairs import Segments
from twmd_registry.errors import FileError
from twmd_registry.plugins.transformers.panel import BESIDE, Evaluation
from twmd_registry.record.content import InputFile, SystemComparison, column_of, make_record
from twmd_registry.record.file import write_record
from twmd_registry.registry.paths import write_file

SIGNATURES = "metric_signatures.json"
"""The file beside the checkpoints with the signature of every score."""
CARD = "README.md"


def write_signatures(folder: Path, signatures: Mapping[str, Mapping[str, str]]) -> None:
    """Write the signatures of every evaluation set's metrics."""
    write_file(folder / SIGNATURES, f"{json.dumps(signatures, indent=1, ensure_ascii=False)}\n".encode())


def write_evidence(folder: Path, evaluation: Evaluation, device: str) -> None:
    """Write the record of our metrics' and SacreBLEU's scores, and their texts, into a checkpoint's folder.

    ``twmd verify NAME_record.json -i NAME_texts.jsonl`` scores them again. If one cannot be written, neither stays.
    """
    if evaluation.segments is None or not evaluation.score_sets:
        return
    name, texts = quote(evaluation.name, safe=""), _json_lines(evaluation.segments)
    source = InputFile("predictions", f"{name}_texts.jsonl", hashlib.sha256(texts.encode()).hexdigest())
    columns = (*map(column_of, evaluation.score_sets), *evaluation.lexical)
    record = make_record(
        [(source.name, evaluation.score_sets)],
        inputs=[source],
        references=evaluation.segments.references,
        seconds=evaluation.seconds,
        device=device,
        comparison=SystemComparison((source.name,), columns),
    )
    write_record(record, folder / f"{name}_record.json")
    try:
        write_file(folder / source.name, texts.encode())
    except FileError:
        (folder / f"{name}_record.json").unlink()
        raise


def _json_lines(segments: Segments) -> str:
    names = ("prediction", "references", "source")
    rows = (dict(zip(names, row, strict=False)) for row in zip(*filter(None, segments), strict=True))
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_results(folder: Path, evaluations: Iterable[Evaluation]) -> None:
    """Write scores and signatures into a model card's metadata (``model-index``); they replace those of the same sets.

    A card is made where the folder has none; a `FileError` says that it cannot be read or written.
    """
    from huggingface_hub import ModelCard, ModelCardData

    path, new = folder / CARD, [result for evaluation in evaluations for result in _results(evaluation)]
    try:
        card = (
            ModelCard.load(path)
            if path.is_file()
            else ModelCard(f"---\n{ModelCardData().to_yaml()}\n---\n\n# {folder.resolve().name}\n")
        )
    except Exception as error:  # the YAML library has errors of its own kinds
        reason = " ".join(str(error).split())
        raise FileError(f"{path}: its metadata cannot be read: {reason:.200}") from error
    replaced = {_what(result) for result in new}
    card.data["eval_results"] = [old for old in card.data.get("eval_results", []) if _what(old) not in replaced] + new
    card.data["model_name"] = card.data.get("model_name") or folder.resolve().name
    write_file(path, str(card).encode())


def _results(evaluation: Evaluation) -> list[Any]:
    """Return an `EvalResult` per score; precision, recall, F1 and counts stay in the log: they have no signature."""
    from huggingface_hub import EvalResult

    dataset, signatures = evaluation.dataset or evaluation.name, evaluation.signatures
    beside = {f"{metric}_{key}" for metric in signatures for key in BESIDE}
    return [
        EvalResult(
            task_type="text2text-generation",
            dataset_type=dataset,
            dataset_name=dataset,
            dataset_split=evaluation.split,
            metric_type=key,
            metric_name=f"{key} ({evaluation.name})",
            metric_value=value,
            metric_args={"signature": signatures[key]} if key in signatures else None,
        )
        for key, value in evaluation.values.items()
        if key not in beside
    ]


def _what(result: Any) -> tuple[Any, ...]:
    """Return the fields that identify a result."""
    return (result.task_type, result.dataset_type, result.dataset_split, result.metric_type, result.metric_name)
