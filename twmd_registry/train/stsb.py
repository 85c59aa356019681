"""A regression cross-encoder on the STS benchmark, as a small adapter of the embedded model.

This is how the packaged adapter of STSScore was made (Herbold 2024 fine-tunes RoBERTa-base on the same data):
LoRA on every linear layer and a new head, mean squared error on the ratings 0 to 5, the epoch with the best
Pearson correlation on the development set.
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.errors import FileError, MissingExtraError
from twmd_registry.models.files import find_model
from twmd_registry.models.load import load_network, load_tokenizer
from twmd_registry.registry.names import EMBEDDED_MODEL

RANK = 16
LEARNING_RATE = 5e-4
BATCH = 16
EPOCHS = 4
SEED = 12345
SETTINGS: dict[str, Any] = {
    "learning_rate": LEARNING_RATE,
    "per_device_train_batch_size": BATCH,
    "per_device_eval_batch_size": 64,
    "warmup_steps": 100,
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 1,
    "load_best_model_at_end": True,
    "metric_for_best_model": "pearson",
    "seed": SEED,
    "report_to": [],
}
"""Training arguments: the epoch with the best Pearson correlation on dev is kept."""


class RatedPairs(NamedTuple):
    """Pairs of sentences and their ratings, 0 to 5."""

    firsts: list[str]
    seconds: list[str]
    ratings: list[float]


def read_stsb(path: Path) -> RatedPairs:
    """Read an STS benchmark file: ``sentence1,sentence2,rating`` without a header.

    Raises:
        FileError: The file is missing or a row has another form.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        ratings = [float(rating) for _, _, rating in rows]
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}.") from error
    except ValueError as error:
        raise FileError(f"{path}: expected rows of sentence1,sentence2,rating ({error}).") from error
    return RatedPairs([row[0] for row in rows], [row[1] for row in rows], ratings)


def train_stsb(data: Path, output: Path, *, epochs: int = EPOCHS) -> dict[str, float]:
    """Fine-tune the embedded model on STS-B train, choose the epoch on dev, write the adapter.

    Args:
        data: Folder with ``train.csv`` and ``dev.csv``.
        output: Where ``adapter_config.json`` and ``adapter_model.safetensors`` go.
        epochs: Passes over the training set.

    Returns:
        Pearson correlation on dev (``eval_pearson``) of the adapter written.

    Raises:
        FileError: A data file is missing or damaged.
        MissingExtraError: `peft`, `accelerate` or `datasets` is not installed.
    """
    try:
        from datasets import Dataset
        from peft import LoraConfig, TaskType, get_peft_model
        from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding, Trainer, TrainingArguments, set_seed
    except ImportError as error:
        raise MissingExtraError("training needs more packages: pip install 'twmd-registry[train]'") from error
    files = find_model(EMBEDDED_MODEL)
    tokenizer = load_tokenizer(files)
    set_seed(SEED)
    base = load_network(AutoModelForSequenceClassification, files, "float32", num_labels=1, problem_type="regression")
    lora = LoraConfig(task_type=TaskType.SEQ_CLS, r=RANK, lora_alpha=2 * RANK, lora_dropout=0.05, target_modules="all-linear")
    network = get_peft_model(base, lora)

    def prepare(name: str) -> Any:
        pairs = read_stsb(data / f"{name}.csv")
        encoded = tokenizer(pairs.firsts, pairs.seconds, truncation="longest_first", max_length=tokenizer.model_max_length)
        return Dataset.from_dict({**encoded, "labels": pairs.ratings})

    trainer = Trainer(
        model=network,
        args=TrainingArguments(output_dir=str(output / "run"), num_train_epochs=epochs, **SETTINGS),
        train_dataset=prepare("train"),
        eval_dataset=prepare("dev"),
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda p: {"pearson": float(np.corrcoef(np.squeeze(p.predictions), p.label_ids)[0, 1])},
    )
    trainer.train()
    result = trainer.evaluate()
    network.save_pretrained(str(output))
    _clean(output)
    return {"eval_pearson": float(result["eval_pearson"])}


def _clean(output: Path) -> None:
    """Leave the adapter alone in its folder, naming its base model and no path of this machine."""
    config = output / "adapter_config.json"
    settings = json.loads(config.read_text(encoding="utf-8"))
    settings["base_model_name_or_path"] = EMBEDDED_MODEL
    config.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    shutil.rmtree(output / "run", ignore_errors=True)
    (output / "README.md").unlink(missing_ok=True)
