from __future__ import annotations

import numpy as np
import pytest
import torch

from twmd_registry.encode.encoder import Encoder
from twmd_registry.encode.store import TextStore
from twmd_registry.engine.pairs import BYTES_PER_TOKEN, COPIES_FACTOR, Pairs, check_segments, make_pairs, plan_chunks
from twmd_registry.models.files import find_model
from twmd_registry.tensors import TEXT_FLAGS


@pytest.fixture(scope="module")
def encoder(bert: str) -> Encoder:
    return Encoder(find_model(bert), None, "float32", torch.device("cpu"))


def some_pairs() -> Pairs:
    references = [["the cat sat", "a dog ran"] if i % 3 else ["the cat sat"] for i in range(9)]
    return make_pairs(check_segments(["it ran", "we saw the cat", "it ran"] * 3, references))


def open_store(encoder: Encoder, pairs: Pairs) -> tuple[TextStore, list[slice]]:
    """Return a store of the texts of some pairs, and their chunks."""
    chunks, uses = plan_chunks(pairs, None, 1, 1)
    flags = np.zeros(len(pairs.texts), TEXT_FLAGS)
    return TextStore(encoder, pairs.texts, [2], uses, flags=flags), list(chunks)


def test_copies_of_repeated_texts_are_bounded() -> None:
    pairs = make_pairs(check_segments(["yes", "no"] * 500, ["no", "yes"] * 500))
    chunks, _ = plan_chunks(pairs, None, 100, step=2)
    tokens = sum(len(text) // BYTES_PER_TOKEN + 2 for text in ("yes", "no"))
    assert len(chunks) > 1
    assert [chunk.start for chunk in chunks] == [0, *(chunk.stop for chunk in chunks[:-1])]
    assert all((chunk.stop - chunk.start) / 2 * tokens <= COPIES_FACTOR * 100 for chunk in chunks)


def test_every_text_is_encoded_once_and_held_while_it_is_needed(encoder: Encoder) -> None:
    pairs = some_pairs()
    store, pieces = open_store(encoder, pairs)
    before = encoder.texts_encoded
    with torch.inference_mode():
        alone = {text: encoder.encode(encoder.tokenise([text]), [2]).layers[2] for text in pairs.texts}
        for p, piece in enumerate(pieces):
            ids = np.union1d(pairs.hyp[piece], pairs.ref[piece])
            held, rows = store.fetch(ids, batch_tokens=None, progress=None)
            starts = np.cumsum(held.lengths.numpy()) - held.lengths.numpy()
            for text, row in zip(ids, rows, strict=True):
                mine = held.layers[2][starts[row] : starts[row] + int(held.lengths[row])]
                torch.testing.assert_close(mine, alone[pairs.texts[text]], atol=2e-6, rtol=0)
            store.forget(p, 10**6)
    assert len(pieces) == len(pairs.counts)
    assert encoder.texts_encoded - before == 2 * len(pairs.texts)
    assert len(store.held_texts) == 0


def test_text_that_does_not_fit_is_encoded_again(encoder: Encoder) -> None:
    pairs = some_pairs()
    store, pieces = open_store(encoder, pairs)
    before = encoder.texts_encoded
    with torch.inference_mode():
        for p, piece in enumerate(pieces):
            store.fetch(np.union1d(pairs.hyp[piece], pairs.ref[piece]), batch_tokens=None, progress=None)
            store.forget(p, 0)
    assert encoder.texts_encoded - before > len(pairs.texts)
