"""Token ids in every form, and which rows are evaluated with which references."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests import tiny
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.plugins.transformers import callback as module
from twmd_registry.plugins.transformers.callback import EvaluationRows, decode_texts, padding_of

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
    "wrong", [np.zeros((3, 6, 24), dtype=np.float32), np.zeros((3, 6), dtype=np.float32), np.zeros(3, dtype=np.int64)]
)
def test_array_that_is_not_token_ids_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"predictions must be token ids.*set predict_with_generate=True"):
        decode_texts(wrong, tiny.tokenizer(), "predictions")


def test_padding_of_a_tokenizer_without_pad_token_is_its_end_token() -> None:
    assert padding_of(SimpleNamespace(pad_token_id=None, eos_token_id=7)) == 7
    assert padding_of(SimpleNamespace(pad_token_id=0, eos_token_id=7)) == 0
    assert padding_of(SimpleNamespace(tokenizer=SimpleNamespace(pad_token_id=3, eos_token_id=7))) == 3


LABELS = ["a", "b", "c"]


class SplitDataset(list[str]):
    """A data set with the name of its split."""

    def __init__(self, split: str | None, size: int = 3) -> None:
        super().__init__(["row"] * size)
        self.split = split


def watched_rows(references: Any, dataset: Any) -> EvaluationRows:
    rows = EvaluationRows(references)
    rows.watch(dataset, in_order=True)
    return rows


class TestCount:
    def test_predictions_beyond_the_rows_of_a_single_process_are_refused(self) -> None:
        assert EvaluationRows(None).count(7) == 7
        assert watched_rows(None, SplitDataset("x")).count(3) == 3
        assert watched_rows(None, iter([])).count(5) == 5
        with pytest.raises(InputError, match="4 predictions came for an evaluation set of 3 rows"):
            watched_rows(None, SplitDataset("x")).count(4)

    def test_missing_rows_are_warned_about(self) -> None:
        with pytest.warns(TwmdWarning, match="2 of the 3 rows"):
            assert watched_rows(None, SplitDataset("x")).count(2) == 2

    def test_rows_of_several_processes_are_cut_to_the_data_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "world_size", lambda: 2)
        assert watched_rows(None, SplitDataset("x", 5)).count(8) == 5
        with pytest.raises(SpecError, match="give the compute_metrics object in callbacks"):
            EvaluationRows(None).count(8)


class TestReferences:
    def test_list_of_references_is_refused_for_a_second_evaluation_set(self) -> None:
        rows = EvaluationRows(["x", "y", "z"])
        assert rows.texts_of("references", LABELS) == ["x", "y", "z"]
        assert rows.texts_of("references", LABELS) == ["x", "y", "z"]
        with pytest.raises(InputError, match=r"other labels before: two evaluation sets\?.*dict \{split: texts\}"):
            rows.texts_of("references", ["a", "b", "d"])
        with pytest.raises(InputError, match="3 references for an evaluation set of 2 rows"):
            rows.texts_of("references", ["a", "b"])

    def test_dict_of_references_is_selected_by_split(self) -> None:
        rows = EvaluationRows({"news": [["x"], ["y", "y2"], ["z"]], "talk": ["u", "v", "w"]})
        with pytest.raises(SpecError, match="give the compute_metrics object in callbacks"):
            rows.texts_of("references", LABELS)
        for split, wanted in (("news", [["x"], ["y", "y2"], ["z"]]), ("talk", ["u", "v", "w"])):
            rows.watch(SplitDataset(split), in_order=True)
            assert rows.texts_of("references", [f"{label} {split}" for label in LABELS]) == wanted
        with pytest.raises(InputError, match="references of 'talk' were used for rows with other labels"):
            rows.texts_of("references", LABELS)
        rows.watch(SplitDataset("tal"), in_order=True)
        with pytest.raises(SpecError, match="did you mean 'talk'"):
            rows.texts_of("references", LABELS)
        rows.watch(SplitDataset(None), in_order=True)
        with pytest.raises(SpecError, match="does not say which split it is: give a function"):
            rows.texts_of("references", LABELS)

    def test_reference_function_receives_the_data_set(self) -> None:
        rows = watched_rows(lambda dataset: dataset.own, SimpleNamespace(own=["x", "y", "z"]))
        assert rows.texts_of("references", LABELS) == ["x", "y", "z"]
        with pytest.raises(SpecError, match="give the compute_metrics object in callbacks"):
            EvaluationRows(lambda dataset: dataset.own).texts_of("references", LABELS)

    def test_references_of_missing_rows_are_left_out(self) -> None:
        assert watched_rows(["x", "y", "z"], SplitDataset("x")).texts_of("references", LABELS[:2]) == ["x", "y"]

    def test_reordered_rows_are_refused_with_a_list_of_references(self) -> None:
        EvaluationRows(None).watch(SplitDataset("x"), in_order=False)
        with pytest.raises(SpecError, match="grouping by length"):
            EvaluationRows(["x", "y", "z"]).watch(SplitDataset("x"), in_order=False)
