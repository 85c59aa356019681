"""Encoders of every build: the vectors are the library's own, and padding changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModel, BertConfig, BertForSequenceClassification, BertModel

from tests import tiny
from tests.encode.test_encoder import SENTENCES, encode, load
from twmd_registry.models.files import find_model

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
