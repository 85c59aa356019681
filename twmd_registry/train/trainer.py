"""transformers' Trainer with our batches and evaluation, and checkpoints that survive a kill."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from twmd_registry.errors import ModelError, NotFiniteError, SpecError
from twmd_registry.models.load import pick_device
from twmd_registry.train.data import Batches, Example
from twmd_registry.train.model import TrainedMetric
from twmd_registry.train.recipe import Recipe

LINE_RATE = 1e-2
"""Learning rate of scale and offset, two numbers near 1 that an encoder's learning rate would hardly change."""
WARM_UP = 0.1
"""Share of the steps in which the learning rate rises."""
LOG_STEPS = 10
"""Steps between log entries; fewer in a shorter run."""
WEIGHTS, STATE = "model.safetensors", "trainer_state.json"
"""First and last file that Trainer writes into a checkpoint."""


class MetricTrainer(Trainer):  # type: ignore[misc]
    """Trains a `TrainedMetric` with our batches and agreement with the development data."""

    control: Any
    optimizer: Any

    def __init__(
        self, model: TrainedMetric, batches: Batches, agreement: Callable[[], dict[str, float]], **settings: Any
    ) -> None:
        """Store our batches and the function that replaces Trainer's evaluation loop."""
        self._batches, self._agreement = batches, agreement
        self._logged = time.monotonic()
        super().__init__(model=model, data_collator=collate, **settings)
        self.remove_callback(PrinterCallback)  # it repeats the log as dictionaries

    def get_train_dataloader(self) -> Any:
        """Return a data loader of our batches."""
        loader = DataLoader(self.train_dataset, batch_sampler=self._batches, collate_fn=self.data_collator)
        return self.accelerator.prepare(loader)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Measure and log the agreement with dev."""
        del eval_dataset, ignore_keys
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in self._agreement().items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def log(self, logs: dict[str, float], *args: Any) -> None:
        """Add the seconds since the last entry; checkpoints keep the log, and a resumed run adds to the sum."""
        now = time.monotonic()
        super().log(logs | {"seconds": now - self._logged}, *args)
        self._logged = now

    def training_step(self, *args: Any, **settings: Any) -> Any:
        """Run a training step and save a checkpoint if due; raise ModelError if training diverged."""
        step, rate = self.state.global_step + 1, f"the learning rate is {self.args.learning_rate:g}"
        diverged = f"training diverged at step {step}: train again, in a new folder, with a lower one ({rate})."
        try:
            loss = super().training_step(*args, **settings)
        except NotFiniteError as error:
            raise ModelError(diverged) from error
        if not torch.isfinite(loss):
            raise ModelError(diverged)
        if self.args.save_steps and step % self.args.save_steps == 0:
            # In addition to every epoch's: Trainer's "steps" cannot be combined with evaluation by epoch.
            self.control.should_save = True
        return loss

    def create_optimizer(self, model: Any = None) -> Any:
        """Create Trainer's optimizer with a separate learning rate for scale and offset."""
        del model
        if self.optimizer is None:
            optimizer_type, settings = self.get_optimizer_cls_and_kwargs(self.args, self.model)
            line = [self.model.log_scale, self.model.offset]
            encoder = [weight for _, weight in self.model.trained() if all(weight is not number for number in line)]
            self.optimizer = optimizer_type([{"params": encoder}, {"params": line, "lr": LINE_RATE}], **settings)
        return self.optimizer


class KeepBest(TrainerCallback):  # type: ignore[misc]
    """Keeps the best epoch's trained weights in memory, by the highest value of a metric."""

    def __init__(self, model: Any, metric: str) -> None:
        """Store the model and the metric's name."""
        self._model, self._metric = model, metric
        self._weights: dict[str, torch.Tensor] = {}
        self.value = -math.inf

    def on_evaluate(self, *_: Any, metrics: dict[str, float], **__: Any) -> None:
        """Keep the weights if the metric improves; NaN, for constant scores, does not."""
        if metrics[self._metric] > self.value or not self._weights:
            self.value = float(metrics[self._metric])
            trained = ((name, weight) for name, weight in self._model.named_parameters() if weight.requires_grad)
            self._weights = {name: weight.detach().cpu().clone() for name, weight in trained}

    def restore(self) -> None:
        """Load the kept weights into the model."""
        with torch.no_grad():
            for name, weight in self._model.named_parameters():
                if name in self._weights:
                    weight.copy_(self._weights[name])


def collate(rows: Sequence[Example]) -> dict[str, Any]:
    """Return a batch as the arguments of `TrainedMetric.forward`."""
    predictions, references, targets, _ = zip(*rows, strict=True)
    ratings = torch.tensor(targets, dtype=torch.float32)
    return {"predictions": list(predictions), "references": list(references), "targets": ratings}


def training_arguments(
    recipe: Recipe,
    folder: Path,
    batches: int,
    *,
    evaluate: bool,
    device_option: str,
    warm_up: int | None = None,
    arguments_type: Any = TrainingArguments,
) -> Any:
    """Return a trainer's settings for epochs of some batches.

    transformers' own `TrainingArguments` include checkpoints in `folder`, and with `evaluate` load the weights that
    agree best with dev at the end. Other types need `KeepBest`. Raises SpecError if Trainer would use another device.
    """
    steps, requested, is_default_type = (
        recipe.epochs * batches,
        pick_device(device_option),
        arguments_type is TrainingArguments,
    )
    arguments = arguments_type(
        output_dir=str(folder),
        num_train_epochs=recipe.epochs,
        per_device_train_batch_size=recipe.batch,
        learning_rate=recipe.rate,
        warmup_steps=int(WARM_UP * steps) if warm_up is None else warm_up,
        seed=recipe.seed,
        eval_strategy="epoch" if evaluate else "no",
        load_best_model_at_end=evaluate and is_default_type,
        metric_for_best_model="pearson" if evaluate and is_default_type else None,
        save_strategy="epoch" if is_default_type else "no",
        save_steps=recipe.save_steps or 0,
        save_total_limit=2,
        logging_steps=min(LOG_STEPS, steps),
        logging_nan_inf_filter=False,
        remove_unused_columns=False,
        report_to=[],
        use_cpu=requested.type == "cpu",
        dataloader_pin_memory=False,
        disable_tqdm=not sys.stderr.isatty(),
    )
    device = torch.device(arguments.device)
    if device.type != requested.type or (requested.index or 0) != (device.index or 0) or arguments.world_size > 1:
        hint = f"training runs in one process on {device}; choose another one by CUDA_VISIBLE_DEVICES"
        raise SpecError(f"device={device_option}: {hint}.")
    if arguments.n_gpu > 1:
        # Trainer would split a batch over several devices, but it cannot split lists of texts.
        arguments._n_gpu = 1  # noqa: SLF001 (there is no public way)
    return arguments


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint, skipping those that a killed run left half-written."""
    paths = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    return next((path for path in paths if _is_complete(path)), None)


def _is_complete(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
        with safe_open(checkpoint / WEIGHTS, framework="pt") as file:
            return bool(file.keys())
    except (OSError, ValueError, SafetensorError):
        return False
