"""A tiny random translation model and a few rows to train it on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

from tests import tiny

SOURCES = ["the cat sat", "a dog ran over the hill", "we saw it again", "rain today", "the dog and the cat"]
TARGETS = [
    "the cat sat on the mat .",
    "a dog ran over a hill .",
    "we saw it again today .",
    "it saw rain .",
    "the dog and the cat ran .",
]


class Rows(torch.utils.data.Dataset[dict[str, list[int]]]):
    """Tokenized rows as a torch data set; `split` is the split name that some data sets carry."""

    def __init__(
        self, sources: Sequence[str] = SOURCES, targets: Sequence[str] = TARGETS, split: str | None = None
    ) -> None:
        tokenizer = tiny.tokenizer()
        labels = tokenizer(text_target=list(targets))["input_ids"]
        self._rows = [
            {"input_ids": ids, "labels": label_ids}
            for ids, label_ids in zip(tokenizer(list(sources))["input_ids"], labels, strict=True)
        ]
        self.split = split

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, i: int) -> dict[str, list[int]]:
        return self._rows[i]


def network(seed: int = 0) -> Any:
    """Create a BART model with random weights that generates a few words."""
    torch.manual_seed(seed)
    config = BartConfig(
        vocab_size=len(tiny.WORDS) + 4, d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24,
        max_position_embeddings=40, pad_token_id=1, bos_token_id=0, eos_token_id=2,
        decoder_start_token_id=2, forced_eos_token_id=None, init_std=1.0,
    )  # fmt: skip
    return BartForConditionalGeneration(config)


def trainer(folder: Path, metrics: Any, *, callback: bool = True, data: Any = None, **settings: Any) -> Seq2SeqTrainer:
    """Create a trainer that runs a few steps on the CPU."""
    arguments: dict[str, Any] = {
        "max_steps": 2,
        "learning_rate": 1e-2,
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 4,
        "predict_with_generate": True,
        "generation_max_length": 8,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "save_strategy": "no",
        "dataloader_pin_memory": False,
    }
    tokenizer, model = tiny.tokenizer(), network()
    return Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(output_dir=str(folder), **(arguments | settings)),
        train_dataset=Rows(),
        eval_dataset=Rows() if data is None else data,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
        compute_metrics=metrics,
        callbacks=[metrics] if callback else None,
    )
