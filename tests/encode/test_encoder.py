from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModel, BertConfig, BertForSequenceClassification, BertModel

from tests import tiny
from twmd_registry.encode import encoder as encoder_module
from twmd_registry.encode.encoder import Encoder, hidden_states, rule_layer
from twmd_registry.errors import ModelError
from twmd_registry.models.files import find_model
from twmd_registry.tensors import EncodedTexts

SENTENCES = ["the cat sat", "a dog ran over the hill in the rain .", "it", "we saw the cat again today , and the dog"]


def load(folder: Path | str) -> Encoder:
    return Encoder(find_model(str(folder)), None, "float32", torch.device("cpu"))


def encode(encoder: Encoder, texts: list[str], layers: list[int], batch_tokens: int = 1000) -> EncodedTexts:
    with torch.inference_mode():
        return encoder.encode(encoder.tokenise(texts), layers, batch_tokens=batch_tokens)


@pytest.fixture
def encoder(bert: str) -> Encoder:
    return load(bert)


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


def test_half_precision_vectors_come_back_as_float32(bert: str, encoder: Encoder) -> None:
    coarse = Encoder(find_model(bert), None, "bfloat16", torch.device("cpu"))
    found, exact = encode(coarse, SENTENCES, [2]), encode(encoder, SENTENCES, [2])
    assert found.layers[2].dtype == torch.float32
    assert 0 < float((found.layers[2] - exact.layers[2]).abs().max()) < 0.1
    assert np.array_equal(found.special.numpy(), exact.special.numpy())


ALL = [*tiny.FAMILIES, *tiny.OTHER_FAMILIES]


@pytest.mark.parametrize("family", ALL)
def test_every_hidden_state_is_the_librarys_own_padded_or_alone(family: str, tmp_path: Path) -> None:
    if family not in CONFIG_MAPPING:
        pytest.skip(f"this version of transformers has no {family}")
    encoder = load(tiny.save_encoder(family, tmp_path / family))
    whole = AutoModel.from_pretrained(tmp_path / family).eval()
    reference = whole.get_encoder() if family in {"t5", "bart"} else whole
    layers = list(range(tiny.DEPTH + 1))
    together = encode(encoder, SENTENCES, layers)
    assert encoder.depth == tiny.DEPTH
    start = 0
    for text, tokens in zip(SENTENCES, encoder.tokenise(SENTENCES), strict=True):
        alone = encode(encoder, [text], layers)
        with torch.inference_mode():
            expected = reference(input_ids=torch.from_numpy(tokens.ids)[None], output_hidden_states=True).hidden_states
        for k in layers:
            torch.testing.assert_close(alone.layers[k], expected[k][0], atol=2e-6, rtol=0)
            torch.testing.assert_close(
                together.layers[k][start : start + len(tokens.ids)], expected[k][0], atol=2e-6, rtol=0
            )
        start += len(tokens.ids)


def test_classifiers_checkpoint_gives_the_encoder_inside(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = BertConfig(**tiny._BERT, num_labels=3)
    classifier = BertForSequenceClassification(config).eval()
    classifier.save_pretrained(tmp_path / "mnli")
    tiny.tokenizer().save_pretrained(tmp_path / "mnli")
    encoder = load(tmp_path / "mnli")
    assert isinstance(encoder.network, BertModel)
    found = encode(encoder, SENTENCES[:1], [tiny.DEPTH]).layers[tiny.DEPTH]
    with torch.inference_mode():
        expected = classifier.bert(
            input_ids=torch.from_numpy(encoder.tokenise(SENTENCES[:1])[0].ids)[None]
        ).last_hidden_state[0]
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)


def test_sentence_transformers_folder_is_read_where_its_transformer_is(tmp_path: Path) -> None:
    inside = tiny.save_encoder("bert", tmp_path / "st" / "0_Transformer")
    modules = [{"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]
    (tmp_path / "st" / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    assert find_model(str(tmp_path / "st")).folder == inside
    plain = encode(load(inside), SENTENCES, [2]).layers[2]
    torch.testing.assert_close(encode(load(tmp_path / "st"), SENTENCES, [2]).layers[2], plain)
    (tmp_path / "st" / "modules.json").write_text(json.dumps([{"path": "../elsewhere"}]), encoding="utf-8")
    with pytest.raises(OSError, match=r"has no config.json"):
        find_model(str(tmp_path / "st"))
