"""Token ids in every form that Trainer hands over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests import tiny
from twmd_registry.errors import InputError
from twmd_registry.plugins.transformers.callback import decode_texts, padding_of

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
