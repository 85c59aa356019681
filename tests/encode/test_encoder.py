from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests import tiny
from twmd_registry.encode import encoder as encoder_module
from twmd_registry.encode.encoder import Encoder, hidden_states, rule_layer
from twmd_registry.errors import ModelError
from twmd_registry.models.files import find_model
from twmd_registry.tensors import EncodedTexts

SENTENCES = ["the cat sat", "a dog ran over the hill in the rain .", "it", "we saw the cat again today , and the dog"]


def load(folder: Path) -> Encoder:
    return Encoder(find_model(str(folder)), None, "float32", torch.device("cpu"))


def encode(encoder: Encoder, texts: list[str], layers: list[int], batch_tokens: int = 1000) -> EncodedTexts:
    with torch.inference_mode():
        return encoder.encode(encoder.tokenise(texts), layers, batch_tokens=batch_tokens)


@pytest.fixture
def encoder(tmp_path: Path) -> Encoder:
    return load(tiny.save_encoder("bert", tmp_path / "bert"))


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_layers_above_the_highest_one_needed_never_run(family: str, tmp_path: Path) -> None:
    encoder = load(tiny.save_encoder(family, tmp_path / family))
    ran: list[int] = []
    assert encoder.blocks is not None
    for number, block in enumerate(encoder.blocks):
        block.register_forward_hook(lambda *_, number=number: ran.append(number))
    encode(encoder, SENTENCES[:1], [1])
    assert ran == [0]
    ran.clear()
    encode(encoder, SENTENCES[:1], [tiny.DEPTH])
    assert ran == list(range(tiny.DEPTH))


def test_no_hooks_are_left_behind(encoder: Encoder) -> None:
    inputs = {"input_ids": torch.tensor([[0, 5, 2]])}
    with torch.inference_mode():
        hidden_states(encoder.network, encoder.blocks, [0, 2], inputs)
    assert encoder.blocks is not None
    assert not any(block._forward_pre_hooks for block in encoder.blocks)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_length_limit_is_the_networks_where_the_tokenizer_has_none(family: str, tmp_path: Path) -> None:
    encoder = load(tiny.save_encoder(family, tmp_path / family))
    assert encoder.limit == tiny.POSITIONS
    long = " ".join(["cat"] * 100)
    tokens = encoder.tokenise([long, "cat"])
    assert [text.truncated for text in tokens] == [True, False]
    assert (len(tokens[0].ids), tokens[0].ids[0], tokens[0].ids[-1]) == (tiny.POSITIONS, 0, 2)
    assert encode(encoder, [long], [1]).lengths.tolist() == [tiny.POSITIONS]


def test_rule_gives_the_papers_layer_for_base_models() -> None:
    assert [rule_layer(depth) for depth in (6, 12, 24)] == [5, 10, 20]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("no memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_batch_that_does_not_fit_is_halved_until_it_does(
    error: Exception, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = encode(encoder, SENTENCES, [2])
    sizes: list[int] = []
    real = hidden_states

    def scarce(
        network: object, blocks: object, layers: object, inputs: dict[str, torch.Tensor]
    ) -> dict[int, torch.Tensor]:
        sizes.append(len(inputs["input_ids"]))
        if sizes[-1] > 1:
            raise error
        return real(network, blocks, layers, inputs)  # type: ignore[arg-type]

    monkeypatch.setattr(encoder_module, "hidden_states", scarce)
    found = encode(encoder, SENTENCES, [2])
    assert sizes == [4, 2, 1, 1, 1, 1]
    torch.testing.assert_close(found.layers[2], expected.layers[2], atol=2e-6, rtol=0)


def test_single_text_that_does_not_fit_is_one_clear_error(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:

    def starved(*_: object) -> None:
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(encoder_module, "hidden_states", starved)
    with pytest.raises(ModelError, match="out of memory with a single text of 5 tokens"):
        encode(encoder, SENTENCES[:1], [2])


def test_half_precision_vectors_come_back_as_float32(tmp_path: Path) -> None:
    folder = tiny.save_encoder("bert", tmp_path / "bert")
    coarse = Encoder(find_model(str(folder)), None, "bfloat16", torch.device("cpu"))
    found, exact = encode(coarse, SENTENCES, [2]), encode(load(folder), SENTENCES, [2])
    assert found.layers[2].dtype == torch.float32
    assert 0 < float((found.layers[2] - exact.layers[2]).abs().max()) < 0.1
    assert np.array_equal(found.special.numpy(), exact.special.numpy())
