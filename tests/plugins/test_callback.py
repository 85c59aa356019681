"""Token ids in every form, and which rows are evaluated with which references."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import accelerate.data_loader  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from transformers import EvalPrediction, PreTrainedTokenizerFast, trainer_pt_utils

from tests import tiny
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.plugins import transformers as module
from twmd_registry.plugins.transformers import (
    References,
    RegistryCallback,
    count_rows,
    decode_texts,
    texts_of,
)

TEXTS = ["the cat sat", "", "rain"]


def ids(width: int = 6) -> np.ndarray[Any, Any]:
    """Return the texts' ids as `Trainer` joins batches: padded by the padding id first, then by -100."""
    rows = np.full((len(TEXTS), width), -100)
    for row, text in zip(rows, TEXTS, strict=True):
        text_ids = tiny.tokenizer()(text)["input_ids"]
        row[: len(text_ids)] = text_ids
        row[len(text_ids) : len(text_ids) + 1] = 1
    return rows


@pytest.mark.parametrize(
    "form",
    [
        ids(),
        torch.from_numpy(ids()),
        ids().astype(np.int32),
        (ids(), np.zeros((3, 6, 24))),
        [ids()[:2], ids(9)[2:]],
        [(ids()[:1], np.zeros((1, 6, 24))), (ids(8)[1:], np.zeros((2, 8, 24)))],
        [torch.from_numpy(ids()[:2]), torch.from_numpy(ids()[2:])],
    ],
    ids=["array", "tensor", "int32", "tuple", "batches", "batches of tuples", "tensors"],
)
def test_ids_in_every_form_decode_to_the_texts(form: Any) -> None:
    assert (ids() == -100).any()
    assert (ids() == 1).any()
    assert decode_texts(form, tiny.tokenizer(), "predictions") == TEXTS


@pytest.mark.parametrize(
    ("what", "wrong", "words"),
    [
        ("predictions", np.zeros((3, 6, 24), dtype=np.float32), "set predict_with_generate=True"),
        ("predictions", np.zeros((3, 6), dtype=np.float32), "set predict_with_generate=True"),
        ("predictions", np.zeros(3, dtype=np.int64), "set predict_with_generate=True"),
        ("predictions", (None, ids()), "not None"),
        ("predictions", (), "must be token ids"),
        ("label_ids", None, "label_names"),
        ("label_ids", [ids(), None], "label_names"),
        ("label_ids", np.zeros((3, 6, 24)), r"not float64 of shape \(3, 6, 24\)\.$"),
        (
            "label_ids",
            [ids(), np.array([[4, -100], [4, 24]])],
            f"row {len(ids()) + 2}: the tokenizer has no token with id 24",
        ),
        ("predictions", np.array([[4, 1 << 40]]), "row 1: the tokenizer has no token with id 1099511627776"),
    ],
)
def test_non_token_array_is_refused(what: str, wrong: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        decode_texts(wrong, tiny.tokenizer(), what)


def test_tokenizer_without_padding_and_end_decodes_padded_rows() -> None:
    bare = PreTrainedTokenizerFast(tokenizer_object=tiny.tokenizer().backend_tokenizer)
    assert bare.pad_token_id is bare.eos_token_id is None
    rows = np.array([[-100, 4, 6, -100], [-100] * 4])
    for tokenizer in (bare, SimpleNamespace(tokenizer=bare, batch_decode=bare.batch_decode)):
        assert decode_texts(rows, tokenizer, "label_ids") == ["the cat", ""]


def token_rows(*rows: str) -> np.ndarray[Any, Any]:
    """Return the ids of words; ``_`` is -100."""
    return np.array([[-100 if word == "_" else VOCABULARY[word] for word in row.split()] for row in rows])


VOCABULARY = tiny.tokenizer().get_vocab()
PROMPTED = token_rows("_ _ the cat sat [SEP] _ _", "_ _ _ rain [SEP] _ _ _")
"""Labels of a causal model: two prompts, two answers."""
NEXT = token_rows("hill the cat sat [SEP] hill hill hill", "hill hill rain [SEP] a a a a")
"""Its argmax: every answer is right, and there is something at every other position."""
WHOLE = token_rows("the cat sat [SEP] _ _", "rain [SEP] _ _ _ _")
"""Labels without prompts: of a causal model, or of an encoder-decoder."""
NEXT_OF_WHOLE = token_rows("cat sat [SEP] hill hill hill", "[SEP] a a a a a")
ON_THE_RIGHT = token_rows("_ _ _ the cat sat [SEP]", "_ _ _ _ _ rain [SEP]")
NEXT_ON_THE_RIGHT = token_rows("hill hill the cat sat [SEP] hill", "a a a a rain [SEP] a")
SAME = token_rows("the cat sat [SEP] hill hill", "rain [SEP] a a a a")
FORMS: dict[str, Callable[[Any], Any]] = {
    "array": lambda ids: ids,
    "tensor": torch.from_numpy,
    "outputs": lambda ids: (ids, np.zeros((2, 2, 2))),
    "batches": lambda ids: [ids[:1], ids[1:, :-1]],
    "lists": lambda ids: ids.tolist(),
    "tuples": lambda ids: tuple(map(tuple, ids.tolist())),
    "ragged batches of lists": lambda ids: [ids[:1].tolist(), [ids[1, :-1].tolist()]],
}
WIDER = np.full((2, 3), -100)
"""Columns that a collator adds to labels, or `Trainer` where it joins batches."""


def callback(teacher_forced: Any = None) -> RegistryCallback:
    tokenizer = tiny.tokenizer()
    tokenizer.eos_token = "[SEP]"
    return RegistryCallback(tokenizer, [Exact()], teacher_forced=teacher_forced)


class Exact:
    """The share of predictions that are their reference."""

    name = "exact"

    def compute(self, predictions: list[str], references: list[str]) -> dict[str, float]:
        return {"exact": float(np.mean([p == r for p, r in zip(predictions, references, strict=True)]))}


class TestTeacherForced:
    @pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
    @pytest.mark.parametrize(
        ("argmax", "labels", "kind"),
        [
            (NEXT, PROMPTED, "causal"),
            (NEXT[:, :-1], PROMPTED, "causal"),
            (NEXT_ON_THE_RIGHT, ON_THE_RIGHT, "causal"),
            (NEXT_OF_WHOLE, WHOLE, "causal"),
            (SAME, WHOLE, "seq2seq"),
            (NEXT, np.c_[PROMPTED, WIDER], "causal"),
            (np.c_[NEXT[:, :-1], WIDER], PROMPTED, "causal"),
            (SAME[:, :5], np.c_[WHOLE, WIDER], "seq2seq"),
        ],
    )
    def test_argmax_is_refused_or_compared_if_there_are_labels(
        self, argmax: Any, labels: Any, kind: Any, form: Callable[[Any], Any]
    ) -> None:
        prediction = EvalPrediction(predictions=form(argmax), label_ids=form(labels))
        with pytest.raises(InputError, match="teacher_forced='causal'"):
            callback()(prediction)
        assert callback(kind)(prediction)["exact"] == 1
        assert callback(teacher_forced=False)(prediction)["exact"] == 0
        assert callback(teacher_forced=False)(EvalPrediction(predictions=labels, label_ids=labels))["exact"] == 1

    def test_generated_texts_as_wide_as_the_labels_are_scored(self) -> None:
        texts = token_rows("[SEP] the cat sat [SEP] [PAD] [PAD] [PAD]", "[SEP] rain [SEP] [PAD] [PAD] [PAD] _ _")
        for labels in (PROMPTED[:, 2:], token_rows("the cat sat [SEP] _ _ _ _", "rain [SEP] _ _ _ _ _ _")):
            assert callback()(EvalPrediction(predictions=texts, label_ids=labels))["exact"] == 1

    @pytest.mark.parametrize(
        ("argmax", "labels", "kind"),
        [
            (NEXT[:, 5:], PROMPTED, "causal"),
            (NEXT[:1], PROMPTED, "causal"),
            ([NEXT, NEXT], PROMPTED, "causal"),
            (np.c_[NEXT, NEXT], PROMPTED, "causal"),
            (SAME[:, :3], WHOLE, "seq2seq"),
        ],
        ids=["narrow", "rows", "batches", "wide", "one too narrow"],
    )
    def test_argmax_of_another_shape_is_refused(self, argmax: Any, labels: Any, kind: Any) -> None:
        with pytest.raises(InputError, match="shapes"):
            callback(kind)(EvalPrediction(predictions=argmax, label_ids=labels))

    @pytest.mark.parametrize("ids", [[1, 2], ["a b", "c d"], [[0.5, 1.0], [2.0]], [["a"], ["b"]]])
    def test_other_lists_are_refused_with_their_shape(self, ids: Any) -> None:
        with pytest.raises(InputError, match=r"of shape \(2,"):
            callback()(EvalPrediction(predictions=ids, label_ids=WHOLE))

    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            ({"tokenizer": None}, "tokenizer"),
            ({"tokenizer": "bert"}, "tokenizer"),
            ({"offload": "disk"}, "offload"),
            ({"teacher_forced": "casual"}, "causal"),
        ],
    )
    def test_wrong_tokenizer_or_place_is_refused(self, wrong: dict[str, Any], words: str) -> None:
        with pytest.raises(SpecError, match=words):
            RegistryCallback(**{"tokenizer": tiny.tokenizer(), "metrics": [Exact()], **wrong})


LABELS = ["a", "b", "c"]


class SplitDataset(list[str]):
    """A data set with the name of its split."""

    def __init__(self, split: str | None, size: int = 3) -> None:
        super().__init__(["row"] * size)
        self.split = split


class Stream(torch.utils.data.IterableDataset[str]):
    """Rows without a length."""

    def __iter__(self) -> Iterator[str]:
        yield from ["row"] * 5


class SizedStream(Stream):
    """Rows with one."""

    def __len__(self) -> int:
        return 5


class LostStream(Stream):
    """Rows without a length."""

    def __len__(self) -> int:
        raise RuntimeError("the server has gone")


SHARES = [accelerate.data_loader.IterableDatasetShard, trainer_pt_utils.IterableDatasetShard]


class TestCount:
    def test_predictions_beyond_the_rows_of_a_single_process_are_refused(self) -> None:
        assert count_rows(None, 7) == 7
        assert count_rows(SplitDataset("x"), 3) == 3
        assert count_rows(iter([]), 5) == 5
        with pytest.raises(InputError, match="4 predictions for an evaluation set of 3 rows"):
            count_rows(SplitDataset("x"), 4)

    def test_missing_rows_warn(self) -> None:
        with pytest.warns(TwmdWarning, match="2 of the 3 rows"):
            assert count_rows(SplitDataset("x"), 2) == 2

    @pytest.mark.parametrize("share", SHARES)
    def test_stream_shard_counts_as_the_stream(self, share: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        stream, sized = (share(whole, batch_size=2, num_processes=2) for whole in (LostStream(), SizedStream()))
        assert [count_rows(one, 5) for one in (Stream(), stream, sized)] == [5, 5, 5]
        with pytest.raises(InputError, match="6 predictions for an evaluation set of 5 rows"):
            count_rows(sized, 6)
        assert texts_of(stream, "references", ["x", "y", "z"], LABELS, {}) == ["x", "y", "z"]
        with pytest.raises(InputError, match="3 references for an evaluation set of 5 rows"):
            texts_of(sized, "references", ["x", "y", "z"], LABELS, {})
        monkeypatch.setattr(module, "world_size", lambda: 2)
        with pytest.warns(TwmdWarning, match="has no length"):
            assert count_rows(stream, 8) == 8
        assert count_rows(sized, 8) == 5

    def test_rows_of_several_processes_are_truncated_to_the_data_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "world_size", lambda: 2)
        assert count_rows(SplitDataset("x", 5), 8) == 5
        with pytest.raises(SpecError, match="pass the compute_metrics object in callbacks"):
            count_rows(None, 8)


class TestReferences:
    def test_list_of_references_is_refused_for_a_second_evaluation_set(self) -> None:
        labels_of = dict[str, str]()
        for _ in range(2):
            assert texts_of(None, "references", ["x", "y", "z"], LABELS, labels_of) == ["x", "y", "z"]
        with pytest.raises(InputError, match=r"other labels before: two evaluation sets\?.*dict \{split: texts\}"):
            texts_of(None, "references", ["x", "y", "z"], ["a", "b", "d"], labels_of)
        with pytest.raises(InputError, match="3 references for an evaluation set of 2 rows"):
            texts_of(None, "references", ["x", "y", "z"], ["a", "b"], labels_of)

    def test_dict_of_references_is_selected_by_split(self) -> None:
        references: References = {"news": [["x"], ["y", "y2"], ["z"]], "talk": ["u", "v", "w"]}
        labels_of = dict[str, str]()
        with pytest.raises(SpecError, match="pass the compute_metrics object in callbacks"):
            texts_of(None, "references", references, LABELS, labels_of)
        for split, expected in (("news", [["x"], ["y", "y2"], ["z"]]), ("talk", ["u", "v", "w"])):
            labels = [f"{label} {split}" for label in LABELS]
            assert texts_of(SplitDataset(split), "references", references, labels, labels_of) == expected
        with pytest.raises(InputError, match="references for 'talk' were used for rows with other labels"):
            texts_of(SplitDataset("talk"), "references", references, LABELS, labels_of)
        with pytest.raises(SpecError, match="did you mean 'talk'"):
            texts_of(SplitDataset("tal"), "references", references, LABELS, labels_of)
        with pytest.raises(SpecError, match="does not name its split"):
            texts_of(SplitDataset(None), "references", references, LABELS, labels_of)

    def test_reference_function_receives_the_data_set(self) -> None:
        rows = SimpleNamespace(own=["x", "y", "z"])
        assert texts_of(rows, "references", lambda dataset: dataset.own, LABELS, {}) == ["x", "y", "z"]
        with pytest.raises(SpecError, match="pass the compute_metrics object in callbacks"):
            texts_of(None, "references", lambda dataset: dataset.own, LABELS, {})

    def test_references_of_missing_rows_are_left_out(self) -> None:
        assert texts_of(SplitDataset("x"), "references", ["x", "y", "z"], LABELS[:2], {}) == ["x", "y"]

    def test_reordered_rows_are_refused_with_a_list_of_references(self) -> None:
        by_length, rows = SimpleNamespace(group_by_length=True), SimpleNamespace(dataset=SplitDataset("x"))
        RegistryCallback(tiny.tokenizer()).on_prediction_step(by_length, None, None, rows)
        with pytest.raises(SpecError, match="grouping by length"):
            RegistryCallback(tiny.tokenizer(), references=["x"]).on_prediction_step(by_length, None, None, rows)
