"""Seconds of a training step of ``twmd finetune`` beside those of a bare Trainer step: mean pooling, cosine, mean
squared error.

Run alone: ``python -m tests.bench.finetune``. Both train the same weights of MiniLM, to its last layer, on the same
pairs.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Trainer

from tests.bench.texts import machine, print_table, synthetic_pairs
from twmd_registry.encode.encoder import Encoder
from twmd_registry.engine.backends import TokenAlignmentBackend
from twmd_registry.models.files import find_model
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec
from twmd_registry.train.data import Example
from twmd_registry.train.model import TrainedMetric, add_lora, lora_modules, unfreeze
from twmd_registry.train.recipe import Recipe
from twmd_registry.train.trainer import collate, training_arguments

STEPS, ROUNDS, LAYER = 8, 3, 6
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Bare(torch.nn.Module):
    """What one would write by hand."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.network, self.tokenizer, self.line = encoder.network, encoder.tokenizer, torch.nn.Linear(1, 1)

    def forward(
        self, predictions: list[str], references: list[list[str]], targets: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        tokenizer: Any = self.tokenizer
        inputs = tokenizer(
            [*predictions, *(texts[0] for texts in references)], padding=True, truncation=True, return_tensors="pt"
        )
        inputs = inputs.to(targets.device)
        hidden, mask = self.network(**inputs).last_hidden_state, inputs["attention_mask"][..., None]
        x, y = ((hidden * mask).sum(1) / mask.sum(1)).chunk(2)
        found = self.line(torch.nn.functional.cosine_similarity(x, y)[:, None])[:, 0]
        return {"loss": torch.nn.functional.mse_loss(found, targets)}


def prepared(*, full: bool) -> Encoder:
    """Return an encoder with the weights unfrozen that are trained."""
    encoder = Encoder(find_model("embedded"), None, "float32", torch.device(DEVICE), trainable=True)
    if full:
        unfreeze(encoder, LAYER)
    else:
        add_lora(encoder.network, 16, lora_modules(encoder, LAYER))
    return encoder


def ours(metric: str, *, full: bool, **keys: Any) -> TrainedMetric:
    """Return the same encoder in a metric."""
    backend = TokenAlignmentBackend(make_spec(metric, layer=LAYER, **keys), RunOptions(device=DEVICE))
    return TrainedMetric(prepared(full=full), backend.spec, backend.view, Recipe(full=full))


def seconds_per_step(model: torch.nn.Module, rows: list[Example], *, full: bool) -> float:
    """Return the batches of one pass over the rows."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = training_arguments(
            Recipe(full=full, epochs=1), Path(folder), STEPS, evaluate=False, device_option=DEVICE
        )
        arguments = dataclasses.replace(arguments, save_strategy="no", disable_tqdm=True)
        found = Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collate).train()
    return float(found.metrics["train_runtime"]) / float(found.global_step)


def main() -> None:
    """Print the table: medians over rounds in which the contestants take turns."""
    recipe = Recipe()
    predictions, references = synthetic_pairs(STEPS * recipe.batch)
    targets = np.random.default_rng(0).normal(size=len(predictions)).tolist()
    rows = [(p, [r], t, ("", "")) for p, r, t in zip(predictions, references, targets, strict=True)]
    print(f"MiniLM to layer {LAYER}, batch {recipe.batch}, float32 on {DEVICE}; {machine()}")
    table = []
    for weights, full in (("lora", False), ("full", True)):
        models: dict[str, torch.nn.Module] = {
            "bare Trainer step": Bare(prepared(full=full)).to(DEVICE),
            "twmd": ours("twmd", full=full),
            "twmd, centering=batch": ours("twmd", full=full, centering="batch"),
        }
        rounds = [
            {name: seconds_per_step(model, rows, full=full) for name, model in models.items()}
            for _ in range(ROUNDS + 1)
        ][1:]
        bare = [one["bare Trainer step"] for one in rounds]
        for name in models:
            own = [one[name] for one in rounds]
            ratio = float(np.median(np.divide(own, bare)))
            print(f"{weights}, {name}: {np.median(own):.3f} s per step", flush=True)
            table.append([weights, name, f"{np.median(own):.3f}", f"{ratio:.2f}"])
    print_table(table, ["weights", "", "seconds per step", "x bare step"])


if __name__ == "__main__":
    main()
