from __future__ import annotations

import numpy as np
import pytest
import torch

from twmd_registry.encode.encoder import Encoder, tokenise
from twmd_registry.encode.store import TextStore
from twmd_registry.engine.pairs import BYTES_PER_TOKEN, COPIES_FACTOR, Pairs, check_segments, make_pairs, plan_chunks
from twmd_registry.models.files import find_model
from twmd_registry.tensors import TextFacts


@pytest.fixture(scope="module")
def encoder(bert: str) -> Encoder:
    return Encoder(find_model(bert), None, "float32", torch.device("cpu"))


def some_pairs() -> Pairs:
    references = [["the cat sat", "a dog ran"] if i % 3 else ["the cat sat"] for i in range(9)]
    return make_pairs(check_segments(["it ran", "we saw the cat", "it ran"] * 3, references))


def open_store(encoder: Encoder, pairs: Pairs, max_tokens: int) -> tuple[TextStore, list[slice]]:
    """Return a store for the texts of pairs, and their chunks."""
    chunks, uses = plan_chunks(pairs, None, 1, 1)
    facts = TextFacts.of_unread(len(pairs.texts))
    both = pairs.hyp, pairs.ref
    return TextStore(encoder, pairs.texts, both, [2], uses, facts=facts, max_tokens=max_tokens), list(chunks)


def test_copies_of_repeated_texts_are_bounded() -> None:
    pairs = make_pairs(check_segments(["yes", "no"] * 500, ["no", "yes"] * 500))
    chunks, _ = plan_chunks(pairs, None, 100, step=2)
    tokens = sum(len(text) // BYTES_PER_TOKEN + 2 for text in ("yes", "no"))
    assert len(chunks) > 1
    assert [chunk.start for chunk in chunks] == [0, *(chunk.stop for chunk in chunks[:-1])]
    assert all((chunk.stop - chunk.start) / 2 * tokens <= COPIES_FACTOR * 100 for chunk in chunks)


def test_every_text_is_encoded_once_and_kept_while_needed(encoder: Encoder) -> None:
    pairs = some_pairs()
    store, pieces = open_store(encoder, pairs, 10**6)
    before = encoder.texts_encoded
    with torch.inference_mode():
        alone = {text: encoder.encode(tokenise(encoder.tokenizer, [text], None), [2]).layers[2] for text in pairs.texts}
        for p, piece in enumerate(pieces):
            held, texts = store.fetch(piece, p)
            assert set(pairs.hyp[piece]) | set(pairs.ref[piece]) <= set(texts)
            starts = np.cumsum(held.lengths.numpy()) - held.lengths.numpy()
            for row, text in enumerate(texts):
                vectors = held.layers[2][starts[row] : starts[row] + int(held.lengths[row])]
                torch.testing.assert_close(vectors, alone[pairs.texts[text]], atol=2e-6, rtol=0)
    assert len(pieces) == len(pairs.counts)
    assert encoder.texts_encoded - before == 2 * len(pairs.texts)
    assert len(store.held_texts) == 0
