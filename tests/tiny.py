"""Tiny random models, built from a configuration and saved as a Hub-like folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import (
    AlbertConfig,
    AlbertModel,
    BartConfig,
    BartModel,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    DebertaV2Config,
    DebertaV2Model,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5Model,
    XLMRobertaConfig,
    XLMRobertaModel,
)

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "on",
    "mat",
    "and",
    "ran",
    "over",
    "hill",
    "in",
    "rain",
    "we",
    "saw",
    "it",
    "again",
    "today",
    ".",
    ",",
]
WIDTH, DEPTH, POSITIONS = 16, 3, 40

_SHARED: dict[str, Any] = {
    "vocab_size": len(WORDS) + 4,
    "hidden_size": WIDTH,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}

FAMILIES: dict[str, tuple[type[PreTrainedModel], Any]] = {
    "bert": (BertModel, BertConfig(**_SHARED, max_position_embeddings=POSITIONS)),
    "roberta": (
        RobertaModel,
        RobertaConfig(**_SHARED, max_position_embeddings=POSITIONS + 2, pad_token_id=1, type_vocab_size=1),
    ),
    "mpnet": (MPNetModel, MPNetConfig(**_SHARED, max_position_embeddings=POSITIONS + 2, pad_token_id=1)),
    "electra": (ElectraModel, ElectraConfig(**_SHARED, embedding_size=WIDTH, max_position_embeddings=POSITIONS)),
    "distilbert": (
        DistilBertModel,
        DistilBertConfig(
            vocab_size=len(WORDS) + 4,
            dim=WIDTH,
            n_layers=DEPTH,
            n_heads=2,
            hidden_dim=24,
            max_position_embeddings=POSITIONS,
        ),
    ),
}


_SMALL = {**_SHARED, "max_position_embeddings": POSITIONS}
_DECODER = {
    **_SHARED,
    "max_position_embeddings": POSITIONS,
    "num_key_value_heads": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}

OTHER_FAMILIES: dict[str, tuple[type[PreTrainedModel], Any]] = {
    "xlm-roberta": (
        XLMRobertaModel,
        XLMRobertaConfig(**_SHARED, max_position_embeddings=POSITIONS + 2, pad_token_id=1, type_vocab_size=1),
    ),
    "deberta-v2": (
        DebertaV2Model,
        DebertaV2Config(
            **_SMALL,
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_biased_input=False,
            share_att_key=True,
        ),
    ),
    "albert": (AlbertModel, AlbertConfig(**_SMALL, embedding_size=8)),
    "modernbert": (
        ModernBertModel,
        ModernBertConfig(
            **_SMALL, pad_token_id=1, cls_token_id=0, sep_token_id=2, bos_token_id=0, eos_token_id=2, local_attention=8
        ),
    ),
    "t5": (
        T5Model,
        T5Config(
            vocab_size=len(WORDS) + 4,
            d_model=WIDTH,
            d_kv=8,
            d_ff=24,
            num_layers=DEPTH,
            num_heads=2,
            pad_token_id=1,
            decoder_start_token_id=1,
        ),
    ),
    "bart": (
        BartModel,
        BartConfig(
            vocab_size=len(WORDS) + 4,
            d_model=WIDTH,
            encoder_layers=DEPTH,
            decoder_layers=2,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=24,
            decoder_ffn_dim=24,
            max_position_embeddings=POSITIONS,
            pad_token_id=1,
            bos_token_id=0,
            eos_token_id=2,
        ),
    ),
    "gpt2": (
        GPT2Model,
        GPT2Config(
            vocab_size=len(WORDS) + 4,
            n_embd=WIDTH,
            n_layer=DEPTH,
            n_head=2,
            n_positions=POSITIONS,
            bos_token_id=0,
            eos_token_id=2,
        ),
    ),
    "llama": (LlamaModel, LlamaConfig(**_DECODER)),
}
"""Families that differ from BERT in their layers or positions, or that have an encoder and a decoder."""


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
    kind, config = (FAMILIES | OTHER_FAMILIES)[family]
    kind(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def save_regressor(folder: Path, outputs: int = 1, token_types: int = 2) -> Path:
    """Save a cross-encoder with random weights and a head of `outputs` outputs, and return its folder."""
    torch.manual_seed(1)
    config = BertConfig(**_SHARED, max_position_embeddings=POSITIONS, num_labels=outputs, type_vocab_size=token_types)
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder
