"""Tiny random models, built from a configuration and saved as a Hub-like folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import AutoConfig, AutoModel, BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

WORDS = "the a cat dog sat on mat and ran over hill in rain we saw it again today . ,".split()
WIDTH, DEPTH, POSITIONS = 16, 3, 40

_VOCABULARY: dict[str, Any] = {"vocab_size": len(WORDS) + 4}
_LAYERS = _VOCABULARY | {
    "hidden_size": WIDTH,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
_BERT = _LAYERS | {"max_position_embeddings": POSITIONS}
_ROBERTA = _LAYERS | {"max_position_embeddings": POSITIONS + 2, "pad_token_id": 1}
_ENDS = {"bos_token_id": 0, "eos_token_id": 2}

FAMILIES: dict[str, dict[str, Any]] = {
    "bert": _BERT,
    "roberta": _ROBERTA | {"type_vocab_size": 1},
    "mpnet": _ROBERTA,
    "electra": _BERT | {"embedding_size": WIDTH},
    "distilbert": _VOCABULARY
    | {"dim": WIDTH, "n_layers": DEPTH, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": POSITIONS},
}
"""Settings of encoders by the names that transformers gives their families."""
OTHER_FAMILIES: dict[str, dict[str, Any]] = {
    "xlm-roberta": _ROBERTA | {"type_vocab_size": 1},
    "deberta-v2": _BERT
    | {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "share_att_key": True,
    },
    "albert": _BERT | {"embedding_size": 8},
    "modernbert": _BERT | _ENDS | {"pad_token_id": 1, "cls_token_id": 0, "sep_token_id": 2, "local_attention": 8},
    "t5": _VOCABULARY
    | {"d_model": WIDTH, "d_kv": 8, "d_ff": 24, "num_layers": DEPTH, "num_heads": 2}
    | {"pad_token_id": 1, "decoder_start_token_id": 1},
    "bart": _VOCABULARY
    | {"d_model": WIDTH, "encoder_layers": DEPTH, "encoder_attention_heads": 2, "encoder_ffn_dim": 24}
    | {"decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 24}
    | {"max_position_embeddings": POSITIONS, "pad_token_id": 1, **_ENDS},
    "gpt2": _VOCABULARY | {"n_embd": WIDTH, "n_layer": DEPTH, "n_head": 2, "n_positions": POSITIONS, **_ENDS},
    "llama": _BERT | _ENDS | {"num_key_value_heads": 1},
}
"""Families whose layers or positions differ from BERT's, or with an encoder and a decoder."""


def tokenizer() -> PreTrainedTokenizerFast:
    """Make a word-level tokenizer with a small vocabulary and without a length limit (1e30, as in transformers)."""
    vocabulary = {word: i for i, word in enumerate(["[CLS]", "[PAD]", "[SEP]", "[UNK]", *WORDS])}
    backend = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = Whitespace()
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]"
    )


def save_encoder(family: str, folder: Path, seed: int = 0) -> Path:
    """Save an encoder of one family with random weights, and return its folder."""
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, **(FAMILIES | OTHER_FAMILIES)[family])
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def save_regressor(folder: Path, outputs: int = 1, token_types: int = 2) -> Path:
    """Save a cross-encoder with random weights and a head of `outputs` outputs, and return its folder."""
    torch.manual_seed(1)
    config = BertConfig(**_BERT, num_labels=outputs, type_vocab_size=token_types)
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def change_json(path: Path, **values: Any) -> None:
    """Change some entries of a JSON object in a file."""
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")


def flip_last_byte(path: Path) -> None:
    """Change the last bit of a file."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
