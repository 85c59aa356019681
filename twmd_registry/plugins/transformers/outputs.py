"""Files of an evaluation: signatures, texts and records beside checkpoints, results in the model card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from twmd_registry.engine.pairs import Segments
from twmd_registry.errors import FileError
from twmd_registry.plugins.transformers.panel import BESIDE, PanelScores
from twmd_registry.record.content import InputFile, SystemComparison, column_of, make_record
from twmd_registry.record.file import write_record
from twmd_registry.registry.paths import write_atomically

SIGNATURES = "metric_signatures.json"
"""The file beside the checkpoints with the signature of every score."""
CARD = "README.md"


class Evaluation(NamedTuple):
    """One evaluation of one set.

    Attributes:
        name: The prefix of its scores in `Trainer`: ``eval``, ``eval_news``, ``test``.
        split: The split that the data set names, if it does.
        dataset: The data set's own name, if it has one.
        step: Training steps that its weights had.
        scored: The scores.
    """

    name: str
    split: str | None
    dataset: str | None
    step: int
    scored: PanelScores

    def without_texts(self) -> Evaluation:
        """Return the evaluation without its texts and segments' scores."""
        return self._replace(scored=self.scored._replace(score_sets=(), segments=None))


def describe(name: str, dataset: Any, step: int, scored: PanelScores) -> Evaluation:
    """Make an evaluation with the split and the name of its data set."""
    split, info = getattr(dataset, "split", None), getattr(dataset, "info", None)
    return Evaluation(name, None if split is None else str(split), getattr(info, "dataset_name", None), step, scored)


def write_signatures(folder: Path, signatures: Mapping[str, Mapping[str, str]]) -> None:
    """Write the signatures of every evaluation set's metrics.

    Raises:
        FileError: The file cannot be written.
    """
    _write(folder / SIGNATURES, json.dumps(signatures, indent=1, ensure_ascii=False) + "\n")


def write_evidence(folder: Path, evaluation: Evaluation, device: str) -> None:
    """Write the record of our metrics' and SacreBLEU's scores, and their texts.

    ``twmd verify NAME_record.json -i NAME_texts.jsonl`` scores them again.

    Args:
        folder: The checkpoint's.
        evaluation: An evaluation of its weights.
        device: The scorers', as in `RunOptions`.

    Raises:
        FileError: A file cannot be written; then neither is there.
    """
    scored, name = evaluation.scored, quote(evaluation.name, safe="")
    if scored.segments is None or not scored.score_sets:
        return
    texts = _json_lines(scored.segments)
    source = InputFile("predictions", f"{name}_texts.jsonl", hashlib.sha256(texts.encode()).hexdigest())
    comparison = SystemComparison((source.name,), (*map(column_of, scored.score_sets), *scored.lexical))
    record = make_record(
        [(source.name, scored.score_sets)],
        inputs=[source],
        references=scored.segments.references,
        seconds=scored.seconds,
        device=device,
        comparison=comparison,
    )
    write_record(record, folder / f"{name}_record.json")
    try:
        _write(folder / source.name, texts)
    except FileError:
        (folder / f"{name}_record.json").unlink()
        raise


def _json_lines(segments: Segments) -> str:
    rows = ({"prediction": text, "references": own} for text, own in zip(*segments, strict=True))
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_results(folder: Path, evaluations: Iterable[Evaluation]) -> None:
    """Write scores and signatures into a model card's metadata (``model-index``); they replace those of the same sets.

    Args:
        folder: The model's; a card is made where there is none.
        evaluations: Evaluations of these weights.

    Raises:
        FileError: The card cannot be read or written.
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
    _write(path, str(card))


def _results(evaluation: Evaluation) -> list[Any]:
    """Return an `EvalResult` per score; precision, recall, F1 and counts stay in the log: they have no signature."""
    from huggingface_hub import EvalResult

    scored = evaluation.scored
    dataset = evaluation.dataset or evaluation.name
    beside = {f"{metric}_{key}" for metric in scored.signatures for key in BESIDE}
    return [
        EvalResult(
            task_type="text2text-generation",
            dataset_type=dataset,
            dataset_name=dataset,
            dataset_split=evaluation.split,
            metric_type=key,
            metric_name=f"{key} ({evaluation.name})",
            metric_value=value,
            metric_args={"signature": scored.signatures[key]} if key in scored.signatures else None,
        )
        for key, value in scored.values.items()
        if key not in beside
    ]


def _what(result: Any) -> tuple[Any, ...]:
    """Return the fields that identify a result."""
    return (result.task_type, result.dataset_type, result.dataset_split, result.metric_type, result.metric_name)


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}.") from error
