"""Metrics of the registry, and any others, in evaluations of `transformers.Trainer`.

Create ``metrics = make_compute_metrics(tokenizer, ["twmd", "bleu"])`` and pass it to the trainer twice, as
``compute_metrics=metrics`` and ``callbacks=[metrics]``.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import quote

import numpy as np
import torch
import yaml
from transformers import TrainerCallback

from twmd_registry.comparison.cells import column_of
from twmd_registry.comparison.verdict import SystemComparison
from twmd_registry.engine.distributed import world_size
from twmd_registry.engine.result import NOTED
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, InputError, SpecError
from twmd_registry.messages import menu, warn
from twmd_registry.plugins.panel import SIDES_AND_COUNTS, Evaluation, make_panel, score_evaluation
from twmd_registry.record.content import InputFile, make_record, write_record
from twmd_registry.registry.paths import write_file

__all__ = ["RegistryCallback", "make_compute_metrics"]

Rows = Sequence[str] | Sequence[Sequence[str]]
"""References, one entry per row of a data set: a text or a list of texts."""
References = Rows | Mapping[str, Rows] | Callable[[Any], Rows] | None
"""References of one evaluation set, a dict by split for several, a function of the data set, or None for the labels."""
TeacherForced = Literal["causal", "seq2seq", False, None]
"""Whether predictions are an argmax of the logits. For a causal model, a position predicts the next token; for an
encoder-decoder, its own. False means generated texts. None means generated texts, which are checked.
"""
_IN_CALLBACKS = "pass the compute_metrics object in callbacks=[...] too"
_SEVERAL = "For several evaluation sets pass a dict {split: texts}, or a function of the data set."


def whole_dataset(dataset: Any) -> Any:
    """Return the whole data set, given a process's share of it (accelerate's or transformers')."""
    while type(dataset).__name__ == "IterableDatasetShard":
        dataset = dataset.dataset
    return dataset


def _size_of(dataset: Any) -> int | None:
    """Return the number of rows of a data set; None for a stream, even one whose ``__len__`` raises."""
    try:
        return len(whole_dataset(dataset))
    except Exception:  # noqa: BLE001 (a stream may raise anything)
        return None


def count_rows(dataset: Any, received: int) -> int:
    """Return how many received rows belong to the data set; others are repeats that fill the last batches."""
    is_distributed, size = world_size() > 1, _size_of(dataset)
    if dataset is None and is_distributed:
        raise SpecError(f"several processes repeat rows at the end: {_IN_CALLBACKS}.")
    if size is None:
        if is_distributed:
            warn("the evaluation set has no length: rows that several processes repeat at the end are scored too.")
        return received
    if received > size and not is_distributed:
        interrupted = "some may come from an interrupted evaluation. Evaluate again"
        raise InputError(f"got {received} predictions for an evaluation set of {size} rows; {interrupted}.")
    if received < size:
        hint = "(set dataloader_drop_last=False to score every row)"
        warn(f"got predictions for only {received} of the {size} rows of the evaluation set {hint}.")
    return min(received, size)


def texts_of(data: Any, what: str, choice: References, labels: Sequence[str], labels_of: dict[str, str]) -> Rows | None:
    """Return the references or sources of a data set's rows; None if unknown. References default to the labels.

    `labels_of` keeps a digest of every split's labels. Raises SpecError or InputError for an unknown evaluation set, a
    wrong number of rows, or a split that had other labels before.
    """
    if choice is None:
        return labels if what == "references" else None
    name = ""
    texts: Any = choice
    if data is None and (callable(choice) or isinstance(choice, Mapping)):
        raise SpecError(f"{what} by split or function need the data set: {_IN_CALLBACKS}.")
    if callable(choice):
        texts = choice(data)
    elif isinstance(choice, Mapping):
        split = getattr(data, "split", None)
        if split is None:
            hint = "does not name its split: pass a function of the data set"
            raise SpecError(f"{what} are named by split, but the evaluation set {hint}.")
        name = str(split)
        if name not in choice:
            raise SpecError(f"no {what} for split {name!r}; {menu(name, choice)}.")
        texts = choice[name]
    known = _size_of(data)
    size = len(labels) if known is None else known
    of_name = name and f" for {name!r}"
    if len(texts) != size:
        raise InputError(f"there are {len(texts)} {what}{of_name} for an evaluation set of {size} rows. {_SEVERAL}")
    digest = hashlib.sha256(json.dumps(list(labels)).encode()).hexdigest()
    if not callable(choice) and labels_of.setdefault(name, digest) != digest:
        others = "rows with other labels before: two evaluation sets?"
        raise InputError(f"the {what}{of_name} were used for {others} {_SEVERAL}")
    rows: Rows = texts[: len(labels)]
    return rows


def decode_texts(ids: Any, tokenizer: Any, what: str) -> list[str]:
    """Decode token ids in any form used by `Trainer`: shape (rows, tokens), a list of such batches, or a tuple of
    outputs that starts with the ids. Negative numbers, such as the -100 of joined batches, are padding.

    Raises `InputError` for anything else, and for ids unknown to the tokenizer, which it would leave out.
    """
    batches = batches_of(ids)
    inner = getattr(tokenizer, "tokenizer", tokenizer)  # a processor has one
    first = 0
    for numbers in batches:
        _check_ids(numbers, inner, what, first)
        first += len(numbers)
    rows = [row[row >= 0].tolist() for numbers in batches for row in numbers]
    return [text.strip() for text in tokenizer.batch_decode(rows, skip_special_tokens=True)]


def batches_of(ids: Any) -> list[Any]:
    """Return token ids in any form used by `Trainer`, or lists of rows, as one array per batch.

    Short rows are padded with -100. None stays None.
    """
    if isinstance(ids, list | tuple) and ids:
        if all(map(_is_row, ids)):
            width = max(map(len, ids))
            rows = [[*row, *[-100] * (width - len(row))] for row in ids]
            return [np.array(rows, dtype=None if width else np.int64)]
        if isinstance(ids, tuple):
            return batches_of(ids[0])
        if all(np.isscalar(value) for value in ids):
            return [np.asarray(ids)]
        return [batch for part in ids for batch in batches_of(part)]
    if torch.is_tensor(ids):
        return [(ids.float() if ids.is_floating_point() else ids).detach().cpu().numpy()]  # numpy has no bfloat16
    return [] if isinstance(ids, list) else [ids if ids is None else np.asarray(ids)]


def _is_row(value: Any) -> bool:
    """Return whether a value is a list of numbers or a one-dimensional array."""
    return getattr(value, "ndim", 0) == 1 or (isinstance(value, list | tuple) and all(map(np.isscalar, value)))


def _check_ids(numbers: Any, tokenizer: Any, what: str, first: int) -> None:
    """Raise `InputError` unless a batch has the tokenizer's token ids, padded with negative numbers.

    `first` is the number of rows before the batch.
    """
    expected = f"{what} must be token ids, whole numbers of shape (rows, tokens)"
    if numbers is None:
        where = "name the label columns in label_names" if what == "label_ids" else "let the model generate texts"
        raise InputError(f"{expected}, not None: {where}.")
    if numbers.ndim != 2 or not np.issubdtype(numbers.dtype, np.integer):
        remedy = ": set predict_with_generate=True, or take token ids from preprocess_logits_for_metrics"
        remedy = remedy if what == "predictions" else ""
        raise InputError(f"{expected}, not {numbers.dtype} of shape {numbers.shape}{remedy}.")
    strange = ~np.isin(numbers, _vocabulary(tokenizer, len(tokenizer))) & (numbers >= 0)
    if strange.any():
        row, place = np.argwhere(strange)[0]
        where, remedy = f"{what}, row {first + row + 1}", "pass the tokenizer of the trained model"
        raise InputError(f"{where}: the tokenizer has no token with id {numbers[row, place]}: {remedy}.")


def refuse_teacher_forced(predictions: Any, labels: Any, tokenizer: Any, *, generates: bool | None) -> None:
    """Raise `InputError` if predictions are an argmax of the logits instead of generated texts.

    It is recognised by token ids as wide as the labels, if labels start with -100 like a prompt's, text follows its
    end, or the run generates nothing (`generates`; None if unknown).
    """
    for guesses, label_ids in zip(batches_of(predictions), batches_of(labels), strict=False):
        if generates or not _has_token_per_label(guesses, label_ids):
            continue
        if ((label_ids[:, :1] < 0).any(axis=1) & (label_ids >= 0).any(axis=1)).any():
            evidence = "labels start with -100"
        elif _text_follows_end(guesses, getattr(tokenizer, "tokenizer", tokenizer)):
            evidence = "text follows the end of text"
        elif generates is False:
            evidence = "predict_with_generate is off"
        else:
            continue
        raise InputError(
            f"predictions are as wide as the labels, and {evidence}: an argmax of the logits, not generated text. Set "
            "predict_with_generate=True, or compare the labelled tokens with teacher_forced='causal' ('seq2seq' for an "
            "encoder-decoder). If they are generated text after all, set teacher_forced=False."
        )


def _text_follows_end(ids: Any, tokenizer: Any) -> bool:
    """Return whether a row has text, an end of text, and text again, which generation never yields."""
    text = (ids >= 0) & ~np.isin(ids, tokenizer.all_special_ids)
    ended = np.logical_or.accumulate(np.logical_or.accumulate(text, 1) & (ids == tokenizer.eos_token_id), 1)
    return bool((text & ended).any())


def labelled_tokens(predictions: Any, labels: Any, kind: TeacherForced) -> tuple[list[Any], list[Any]]:
    """Return argmax and labels per batch, without tokens that lack a label or a prediction.

    A causal model predicts a token at the preceding position.
    """
    argmax, label_batches, ahead = batches_of(predictions), batches_of(labels), int(kind == "causal")
    if len(argmax) != len(label_batches) or not all(
        map(functools.partial(_has_token_per_label, ahead=ahead), argmax, label_batches)
    ):
        shapes, label_shapes = ([np.shape(ids) for ids in batches] for batches in (argmax, label_batches))
        expected = f"predictions in the labels' shapes, {label_shapes}"
        raise InputError(f"teacher_forced={kind!r} needs {expected}; got {shapes}.")
    predicted, labelled = list[Any](), list[Any]()
    for guesses, label_ids in zip(argmax, label_batches, strict=True):
        kept = label_ids[:, ahead : guesses.shape[1] + ahead]
        predicted.append(np.where(kept < 0, kept, guesses[:, : kept.shape[1]]))
        labelled.append(kept)
    return predicted, labelled


def _has_token_per_label(guesses: Any, label_ids: Any, ahead: int = 1) -> bool:
    """Return whether a batch of predictions has exactly one token per label after the first `ahead`.

    Trailing padding columns, by which a collator or `Trainer` aligns batches, do not count.
    """
    if np.ndim(guesses) != 2 or np.ndim(label_ids) != 2 or len(guesses) != len(label_ids):
        return False
    return bool(_used_width(label_ids) - ahead <= guesses.shape[1] and _used_width(guesses) <= label_ids.shape[1])


def _used_width(ids: Any) -> int:
    """Return the number of columns up to the last one with a token in any row."""
    return int(np.flatnonzero(np.r_[True, (ids >= 0).any(axis=0)])[-1])


@functools.lru_cache(maxsize=1)
def _vocabulary(tokenizer: Any, size: int) -> np.ndarray:
    """Return the token ids of a tokenizer with `size` tokens, cached because a large one takes 0.2 s to list them."""
    del size
    return np.fromiter(tokenizer.get_vocab().values(), np.int64)


KEPT = "256MB"
"""Memory for encoded references: some 6,000 sentences in one layer of 384 dimensions."""
CARD = "README.md"
SIGNATURES = "metric_signatures.json"
SHOWN = "<!-- scores of twmd-registry -->", "<!-- end of scores -->"
"""Comments that enclose the generated section of a card."""
TIMED = "_runtime"
"""Suffix that `Trainer` adds to every evaluation's name."""
BY_LENGTH = "group_by_length"
"""Setting that reorders rows: on its own up to transformers 4, since then a value of ``train_sampling_strategy``."""
OFFLOAD: dict[str, Callable[[Scorer], None]] = {"cpu": Scorer.park, "close": Scorer.close}
"""Ways to free the metrics' models between evaluations."""


@contextlib.contextmanager
def _warn_on_failure(consequence: str) -> Iterator[None]:
    """Turn a file error into a warning that starts with its consequence. A full disk must not end training."""
    try:
        yield
    except (FileError, ValueError, yaml.YAMLError) as error:
        warn(f"{consequence}: {error}")


def write_evidence(folder: Path, evaluation: Evaluation, device: str) -> None:
    """Write the record of our metrics' and SacreBLEU's scores, and the texts, into a checkpoint's folder.

    ``twmd verify NAME_record.json -i NAME_texts.jsonl`` scores them again.
    """
    if evaluation.segments is None or not evaluation.score_sets:
        return
    name, columns = quote(evaluation.name, safe=""), ("prediction", "references", "source")
    rows = (dict(zip(columns, row, strict=False)) for row in zip(*filter(None, evaluation.segments), strict=True))
    texts = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    source = InputFile("predictions", f"{name}_texts.jsonl", hashlib.sha256(texts).hexdigest())
    record = make_record(
        [(source.name, evaluation.score_sets)],
        inputs=[source],
        references=evaluation.segments.references,
        seconds=evaluation.seconds,
        device=device,
        comparison=SystemComparison((source.name,), (*map(column_of, evaluation.score_sets), *evaluation.lexical)),
    )
    write_file(folder / source.name, texts)
    write_record(record, folder / f"{name}_record.json")


def add_results(path: Path, evaluations: Collection[Evaluation]) -> None:
    """Write scores and signatures into a model card's ``model-index``; replace earlier results of the same sets."""
    from huggingface_hub import ModelCard

    card, new = ModelCard.load(path), [result for evaluation in evaluations for result in _results(evaluation)]
    replaced = {_identity(result) for result in new}
    kept = [old for old in card.data.get("eval_results", []) if _identity(old) not in replaced]
    card.data["eval_results"] = kept + new
    lines = "\n".join([SHOWN[0], "### Signatures of the scores", "", *_shown(evaluations), "", SHOWN[1]])
    text = re.sub(f"\n*{SHOWN[0]}.*?{SHOWN[1]}", "", card.text, flags=re.DOTALL).rstrip()
    card.text = f"{text}\n\n{lines}\n"
    card.data["model_name"] = card.data.get("model_name") or path.resolve().parent.name
    write_file(path, str(card).encode())


def _shown(evaluations: Iterable[Evaluation]) -> list[str]:
    """Return a line of text per signature, with all scores that it signs."""
    signed: dict[str, list[str]] = {}
    for evaluation in evaluations:
        for key, signature in evaluation.signatures.items():
            if key in evaluation.values:
                score = f"`{evaluation.name}_{key}` = {evaluation.values[key]:.4f}"
                signed.setdefault(signature, []).append(score)
    return [f"- {', '.join(scores)}: `{signature}`" for signature, scores in signed.items()]


@contextlib.contextmanager
def _table_with_all_counts(trainer: Any) -> Iterator[None]:
    """Give each evaluation in a trainer's log every count that another one has, while it writes its card.

    Trainer's table takes its columns from the first evaluation, and its cells by position.
    """
    history = trainer.state.log_history
    names = dict.fromkeys(name for entry in history if "eval_loss" in entry for name in entry)
    counts = {name for name in names if name.endswith(tuple(f"_{count}" for count in NOTED))}
    trainer.state.log_history = [
        {name: entry.get(name, 0.0) for name in names if name in entry or name in counts}
        if "eval_loss" in entry
        else entry
        for entry in history
    ]
    try:
        yield
    finally:
        trainer.state.log_history = history


def _results(evaluation: Evaluation) -> list[Any]:
    """Return an `EvalResult` per score. Precision, recall, F1 and counts have no signature and stay in the log."""
    from huggingface_hub import EvalResult

    dataset, signatures = evaluation.dataset or evaluation.name, evaluation.signatures
    added = {f"{metric}_{key}" for metric in signatures for key in SIDES_AND_COUNTS}
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
        if key not in added
    ]


def _identity(result: Any) -> tuple[Any, ...]:
    return (result.task_type, result.dataset_type, result.dataset_split, result.metric_type, result.metric_name)


class RegistryCallback(TrainerCallback):  # type: ignore[misc]
    """Scores every evaluation of a `Trainer`, and writes signatures and records that make the scores verifiable.

    `Trainer` takes the same object as ``compute_metrics=`` and in ``callbacks=[...]``. As a callback it writes
    ``metric_signatures.json`` into the output folder, and a record with its texts into every evaluated checkpoint,
    for ``twmd verify eval_record.json -i eval_texts.jsonl``. The model card gets the results. In a single process it
    also works without being a callback, but writes no files and cannot tell evaluation sets apart.
    """

    def __init__(
        self,
        tokenizer: Any,
        metrics: Iterable[Any] | Mapping[str, Any] = ("twmd",),
        references: References = None,
        prefix: str | None = "",
        *,
        offload: str | None = None,
        keep_references: int | str = KEPT,
        sources: References = None,
        teacher_forced: TeacherForced = None,
    ) -> None:
        """Store the settings; no model is loaded yet.

        Args:
            tokenizer: Decodes the generated token ids and the labels.
            metrics: A list, or a dict by the scores' names. Entries are metrics (``"twmd"``,
                ``"ensemble(stsscore,sbert)"``), signatures, scorers (``load("twmd", layer=6, device="cpu")``),
                SacreBLEU's ``"bleu"``, ``"chrf"`` and ``"ter"`` (scale to 100), and modules of `evaluate`, loaded or
                by name.
            references: A text or list of texts per row of the evaluation set. For several sets, a dict of such lists
                by split (``dataset.split``), or a function from the set to its list. None for the decoded labels.
            prefix: Precedes every score's name. `Trainer` adds ``eval_`` before it.
            offload: What happens to the metrics' models between evaluations: ``"cpu"`` moves them there, ``"close"``
                frees them, None leaves them in place.
            sources: Source texts, for metrics with ``against=source`` or ``both``; in the forms of `references`.
            keep_references: Memory limit for encoded references, so evaluations after the first encode only
                predictions; 0 for none. Scorers have their own setting. ``offload="close"`` forgets them.
            teacher_forced: ``"causal"`` or ``"seq2seq"`` if ``preprocess_logits_for_metrics`` takes the argmax of the
                logits of a causal or encoder-decoder model. Tokens predicted for the labelled positions are then
                compared with the labels. By default such an argmax is refused if recognised. False means that
                predictions are generated texts, and skips the check.

        Raises:
            SpecError: An unknown metric or setting, impossible references, or two metrics with the same name.
        """
        self.panel, self.prefix = make_panel(metrics, keep_references), prefix or ""
        self._scorers = [metric for metric in self.panel.values() if isinstance(metric, Scorer)]
        if not callable(getattr(tokenizer, "batch_decode", None)):
            raise SpecError(f"expected the tokenizer of the model that is trained, not {tokenizer!r:.60}.")
        self._tokenizer = tokenizer
        if teacher_forced not in get_args(TeacherForced):
            raise SpecError(f"teacher_forced={teacher_forced!r}: {menu(str(teacher_forced), get_args(TeacherForced))}.")
        self._teacher_forced = teacher_forced
        self._generates: bool | None = None  # whether Trainer generates texts; None if unknown
        self._given: dict[str, References] = {"references": references, "sources": sources}
        self._labels_of: dict[str, str] = {}
        self._dataset: Any = None
        if offload is not None and offload not in OFFLOAD:
            raise SpecError(f"offload={offload!r}: {menu(str(offload), OFFLOAD)}.")
        self._offload = None if offload is None else OFFLOAD[offload]
        self._predictions: list[str] = []
        self._labels: list[str] = []
        self._loader: Any = None
        self._warned = False  # that it is not a callback
        self._latest: Evaluation | None = None
        self._evaluations: dict[int, dict[str, Evaluation]] = {}
        self._step = 0  # the weights that were last evaluated
        self._restored: int | None = None  # step of the best checkpoint, if training has ended by loading it
        self._signatures: dict[str, dict[str, str]] = {}

    def __call__(self, prediction: Any, compute_result: bool = True) -> dict[str, float]:  # noqa: FBT002 (Trainer's)
        """Score an evaluation; with ``batch_eval_metrics`` store a batch of it until `compute_result` is true.

        Returns finite numbers by key and warns about others. Raises InputError for anything but token ids and for rows
        that do not fit the references, SpecError for an unknown evaluation set or two scores with the same key, and
        whatever `Scorer.score` raises.
        """
        predictions, labels = self._predictions, self._labels
        self._forget_rows()  # a failed evaluation must not leave rows behind
        guesses, label_ids = prediction.predictions, prediction.label_ids
        if self._teacher_forced:
            guesses, label_ids = labelled_tokens(guesses, label_ids, self._teacher_forced)
        predictions += decode_texts(guesses, self._tokenizer, "predictions")
        labels += decode_texts(label_ids, self._tokenizer, "label_ids")
        if self._teacher_forced is None:
            refuse_teacher_forced(guesses, label_ids, self._tokenizer, generates=self._generates)
        if len(predictions) != len(labels):
            raise InputError(f"got {len(predictions)} predictions but {len(labels)} labels.")
        if not compute_result:
            self._predictions, self._labels = predictions, labels
            return {}
        if self._loader is None and not self._warned:
            self._warned = True
            warn(f"no signatures, records or results in model cards are written: {_IN_CALLBACKS}.")
        number = count_rows(self._dataset, len(predictions))
        try:
            references, sources = (
                texts_of(self._dataset, what, texts, labels[:number], self._labels_of)
                for what, texts in self._given.items()
            )
            evaluation = score_evaluation(self.panel, predictions[:number], references, sources)
        finally:
            if self._offload is not None:
                for scorer in self._scorers:
                    self._offload(scorer)
        values = {f"{self.prefix}{key}": value for key, value in evaluation.values.items()}
        signatures = {f"{self.prefix}{key}": value for key, value in evaluation.signatures.items()}
        self._latest = evaluation._replace(values=values, signatures=signatures)
        return dict(values)

    def _forget_rows(self) -> None:
        self._predictions, self._labels = [], []

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Forget the rows of an interrupted evaluation, and the scores of earlier weights."""
        del args, state, control
        self._evaluations, self._restored = {}, None
        self._forget_rows()

    def on_prediction_step(
        self, args: Any, state: Any, control: Any, eval_dataloader: Any = None, model: Any = None, **_: Any
    ) -> None:
        """Record the evaluated data set and whether texts are generated.

        Refuse reordered rows if references follow the data set's order, and generation by a causal model, whose text
        would include the prompt and answer.
        """
        del state, control
        if eval_dataloader is not self._loader:  # a new evaluation; rows of an interrupted one do not belong to it
            self._loader = eval_dataloader
            self._forget_rows()
        by_length = getattr(args, BY_LENGTH, False) or getattr(args, "train_sampling_strategy", None) == BY_LENGTH
        if by_length and any(texts is not None for texts in self._given.values()):
            hint = "turn it off, or pass no sources and references=None, which takes the labels as references"
            raise SpecError(f"grouping by length changes the order of rows: {hint}.")
        self._dataset = whole_dataset(getattr(eval_dataloader, "dataset", None))
        self._generates = bool(getattr(args, "predict_with_generate", False))
        if self._generates and self._teacher_forced:
            raise SpecError("teacher_forced compares an argmax of the logits: turn predict_with_generate off.")
        config, reads_text = getattr(model, "config", None), getattr(model, "main_input_name", None) == "input_ids"
        is_causal = reads_text and getattr(config, "is_encoder_decoder", None) is False
        if self._generates and is_causal and self._teacher_forced is None:
            raise SpecError(
                "with predict_with_generate a causal model continues after its prompt and answer, which stay in the "
                "text: turn it off and set teacher_forced='causal' with an argmax from preprocess_logits_for_metrics, "
                "or generate in your own prediction_step and set teacher_forced=False."
            )

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Mapping[str, float] | None = None, **_: Any
    ) -> None:
        """Keep the results of `Trainer.evaluate` or `predict`, and write their signatures."""
        del control
        if self._latest is None or not state.is_world_process_zero:
            return
        step = self._step = state.global_step if self._restored is None else self._restored
        split, info = (getattr(self._dataset, name, None) for name in ("split", "info"))
        latest = self._latest._replace(
            name=next((key.removesuffix(TIMED) for key in metrics or {} if key.endswith(TIMED)), "eval"),
            split=None if split is None else str(split),
            dataset=getattr(info, "dataset_name", None),
        )
        self._latest = None
        for old in set(self._evaluations) - {step}:  # keep no texts and per-segment scores
            for key, evaluation in self._evaluations[old].items():
                self._evaluations[old][key] = evaluation._replace(score_sets=(), segments=None)
        self._evaluations.setdefault(step, {})[latest.name] = latest
        self._sign(Path(args.output_dir), state, latest)

    on_predict = on_evaluate

    def _sign(self, folder: Path, state: Any, evaluation: Evaluation) -> None:
        """Write new signatures into a file, and once into Trainer's log, which checkpoints keep."""
        if self._signatures.get(evaluation.name) == evaluation.signatures:
            return
        self._signatures[evaluation.name] = evaluation.signatures
        signatures = {evaluation.name: evaluation.signatures}
        state.log_history.append({"metric_signatures": signatures, "step": state.global_step, "epoch": state.epoch})
        with _warn_on_failure("metric signatures are not written"):
            text = json.dumps(self._signatures, indent=1, ensure_ascii=False)
            write_file(folder / SIGNATURES, f"{text}\n".encode())

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write the records of these weights' evaluations into the checkpoint."""
        del control
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if not state.is_world_process_zero or not folder.is_dir():
            return
        for evaluation in self._evaluations.get(state.global_step, {}).values():
            with _warn_on_failure(f"the record of {evaluation.name} is not written"):
                write_evidence(folder, evaluation, next((our.options.device for our in self._scorers), "auto"))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Record whether a model card shows the results of the final weights or of the best checkpoint."""
        del control
        if not state.is_world_process_zero:
            return
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            self._step = self._restored = int(Path(state.best_model_checkpoint).name.rpartition("-")[2])
            if self._step not in self._evaluations:
                hint = "call trainer.evaluate() for its results in the model card"
                warn(f"the best checkpoint ({self._step}) was not evaluated in this run: {hint}.")

    def on_init_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Add callbacks' results to the model cards that `Trainer` writes."""
        del args, state, control
        _keep_results_in_cards()

    def follow(self, trainer: Any) -> None:
        """Add results and signatures to the model cards that a trainer with its own ``create_model_card`` writes.

        transformers' `Trainer` needs no call.
        """
        create = trainer.create_model_card

        def create_with_results(*args: Any, **kwargs: Any) -> None:
            with _table_with_all_counts(trainer):
                create(*args, **kwargs)
            self.add_to_card(trainer)

        trainer.create_model_card = create_with_results

    def add_to_card(self, trainer: Any) -> None:
        """Add the results of the last evaluated weights, with signatures, to a trainer's model card."""
        evaluations, path = self._evaluations.get(self._step), Path(trainer.args.output_dir, CARD)
        if evaluations and trainer.is_world_process_zero() and path.is_file():
            with _warn_on_failure("the model card has no results"):
                add_results(path, evaluations.values())


@functools.cache
def _keep_results_in_cards() -> None:
    """Patch `Trainer.create_model_card`, and so ``push_to_hub``, to add the results of a trainer's callbacks."""
    from transformers import Trainer

    create = Trainer.create_model_card

    @functools.wraps(create)
    def create_with_results(self: Any, *args: Any, **kwargs: Any) -> None:
        ours = [each for each in self.callback_handler.callbacks if isinstance(each, RegistryCallback)]
        with _table_with_all_counts(self) if ours else contextlib.nullcontext():
            create(self, *args, **kwargs)
        for callback in ours:
            callback.add_to_card(self)

    Trainer.create_model_card = create_with_results


make_compute_metrics = RegistryCallback
"""Named after the argument through which `Trainer` takes it."""
