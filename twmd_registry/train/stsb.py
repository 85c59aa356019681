"""A regression model on the STS benchmark: LoRA on every linear layer of an encoder, and a line on the cosine of two
texts' mean vectors, trained by the mean squared error on ratings from 0 to 5 (Herbold 2024: a cross-encoder).
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from twmd_registry.encode.encoder import tokenise
from twmd_registry.engine.scorer import load
from twmd_registry.judgments.corpora import HIGHEST, read_stsb
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.overlap import TRAINING_DATA, write_hashes
from twmd_registry.models.files import find_model
from twmd_registry.models.load import load_encoder, load_tokenizer
from twmd_registry.models.regressor import SiameseRegressor, fit_pair, save_line, stack_pairs
from twmd_registry.registry.names import EMBEDDED_MODEL, Dtype, MetricName
from twmd_registry.registry.spec import make_spec
from twmd_registry.train.data import TrainingData, check_readable, hashes_of, rating_scale
from twmd_registry.train.finetune import check_output
from twmd_registry.train.model import add_lora, require_training, train_in_bfloat16
from twmd_registry.train.recipe import Recipe
from twmd_registry.train.trained_files import save_adapter, write_card, writing

WARM_UP_STEPS = 100
SHOWN = ("num_train_epochs", "learning_rate", "per_device_train_batch_size", "warmup_steps", "seed")
"""Trainer's settings in the model card."""


def train_stsb(
    folder: Path,
    output: Path,
    *,
    model: str = EMBEDDED_MODEL,
    epochs: int = 3,
    bf16: bool = False,
    dtype: Dtype = "float32",
    any_language: bool = False,
    device: str = "auto",
) -> tuple[str, float]:
    """Fine-tune an encoder on STS-B's ``train.csv``, choose the epoch on ``dev.csv``, and save the adapter.

    `dtype` is the number format of the saved weights. Returns the signature of STSScore with this adapter, and its
    Pearson correlation on dev.
    """
    require_training()
    check_output(output, resume=False)
    from transformers import set_seed

    from twmd_registry.train.trainer import training_arguments

    recipe = Recipe(epochs=epochs, bf16=bf16)
    data = {name: TrainingData(f"STS-B {name}", read_stsb(folder / f"{name}.csv")) for name in ("train", "dev")}
    for source in data.values():
        check_readable(source, make_spec(MetricName.STSSCORE, model=model), any_language=any_language)
        rating_scale(source)
    pairs = {name: source.rated for name, source in data.items()}
    files = find_model(model)
    tokenizer = load_tokenizer(files)
    set_seed(recipe.seed)
    network = SiameseRegressor(add_lora(load_encoder(files, "float32"), recipe.rank, "all-linear"))
    start = time.monotonic()
    with writing(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.parent) as run:
            batches = math.ceil(len(pairs["train"].ratings) / recipe.batch)
            arguments = training_arguments(
                recipe, Path(run), batches, evaluate=True, device_option=device, warm_up=WARM_UP_STEPS
            )
            if bf16:
                train_in_bfloat16(network.encoder, arguments.device.type)
            pearson = _train(network, arguments, pairs, tokenizer)
        save_adapter(network.encoder, files.name, output, dtype)
        save_line(network.line, output, files.fingerprint)
        settings = {"rank": recipe.rank} | {name: getattr(arguments, name) for name in SHOWN}
        settings |= {"bf16": bf16, "minutes": f"{(time.monotonic() - start) / 60:.1f}"}
        values = {"pearson": pearson, "settings": settings}
        return _save_documents(data, output, model, files.name, values), pearson


def _train(network: Any, arguments: Any, pairs: Mapping[str, RatedSegments], tokenizer: Any) -> float:
    """Train, and return the Pearson correlation on dev of the best epoch, whose weights are kept."""
    from transformers import PrinterCallback, Trainer

    def collate(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        labels = torch.tensor([row["labels"] for row in rows])
        return stack_pairs([row["input_ids"] for row in rows], tokenizer.pad_token_id or 0) | {"labels": labels}

    trainer = Trainer(
        model=network,
        args=arguments,
        train_dataset=_tokenise_pairs(pairs["train"], tokenizer),
        eval_dataset=_tokenise_pairs(pairs["dev"], tokenizer),
        data_collator=collate,
        compute_metrics=lambda p: {"pearson": float(np.corrcoef(np.squeeze(p.predictions), p.label_ids)[0, 1])},
    )
    trainer.remove_callback(PrinterCallback)  # it prints dictionaries beside the results
    trainer.train()
    return float(trainer.evaluate()["eval_pearson"])


def _tokenise_pairs(rated: RatedSegments, tokenizer: Any) -> list[dict[str, Any]]:
    """Return the rows that the Trainer reads: the token ids of every pair, and its rating."""
    sides = (tokenise(tokenizer, texts, None) for texts in (rated.predictions, rated.references))
    pairs = [fit_pair(first, second, tokenizer.model_max_length) for first, second in zip(*sides, strict=True)]
    ids = [[first.ids.tolist(), second.ids.tolist()] for first, second in pairs]
    return [{"input_ids": tokens, "labels": rating} for tokens, rating in zip(ids, rated.ratings.tolist(), strict=True)]


def _save_documents(
    data: Mapping[str, TrainingData], output: Path, model: str, base: str, values: dict[str, Any]
) -> str:
    """Write model card, signature and hashes of the data; return the signature."""
    with load("stsscore", model=model, adapter=str(output), scale=HIGHEST) as trained:
        signature = trained.signature
    write_hashes(hashes_of(data.values()), output / TRAINING_DATA)
    labels = {name: source.label for name, source in data.items()}
    write_card(output, "stsscore", base, signature, values | labels)
    return signature
