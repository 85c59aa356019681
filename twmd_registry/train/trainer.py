"""`MetricTrainer`: transformers' Trainer with a judge in place of its evaluation; checkpoints that survive a kill."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainingArguments

from twmd_registry.errors import ModelError, NotFiniteError
from twmd_registry.registry.paths import write_atomically
from twmd_registry.train.batches import Batches
from twmd_registry.train.data import TrainingExample
from twmd_registry.train.development import DevelopmentAgreement
from twmd_registry.train.model import TrainedMetric
from twmd_registry.train.recipe import Recipe

LINE_RATE = 1e-2
"""Learning rate of scale and offset: two numbers of the size of 1, which at an encoder's rate would stay where they
started.
"""
WARM_UP = 0.1
"""Share of all steps in which the learning rate rises."""
LOG_STEPS = 10
"""Steps whose mean loss is logged; all of a run that has fewer."""
BEST = "best.safetensors"
STATE = "trainer_state.json"
"""What Trainer writes last into a checkpoint."""
WEIGHTS = "model.safetensors"
"""What it writes first."""


class MetricTrainer(Trainer):  # type: ignore[misc]
    """Trains a `TrainedMetric`; `judge` replaces Trainer's evaluation loop, and the weights that it rates best are
    kept.
    """

    control: Any
    optimizer: Any

    def __init__(
        self, model: TrainedMetric, batches: Batches, judge: Callable[[], DevelopmentAgreement], **settings: Any
    ) -> None:
        """Remember batches and judge; the rest is Trainer's."""
        self._batches, self._judge = batches, judge
        super().__init__(model=model, data_collator=collate, **settings)
        self.remove_callback(PrinterCallback)  # it prints dictionaries; what they say is in the log

    @property
    def kept(self) -> Path:
        """Where the best weights are."""
        return Path(self.args.output_dir) / BEST

    def get_train_dataloader(self) -> Any:
        """Return the data loader of our batches."""
        return self.accelerator.prepare(
            DataLoader(self.train_dataset, batch_sampler=self._batches, collate_fn=self.data_collator)
        )

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Ask the judge, log the answer, keep the weights if they are the best so far."""
        del eval_dataset, ignore_keys
        found = self._judge()._replace(epoch=float(self.state.epoch or 0.0))
        if self.is_world_process_zero() and (not self.kept.is_file() or found.pearson > read_best(self.kept).pearson):
            # One metadata entry, so that the same weights are the same bytes.
            content = save(
                {name: weight.cpu() for name, weight in self.model.state_dict().items()},
                metadata={"twmd": json.dumps(found._asdict())},
            )
            write_atomically(self.kept, content)
        metrics = {f"{metric_key_prefix}_pearson": found.pearson, f"{metric_key_prefix}_kendall": found.kendall}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def training_step(self, *args: Any, **settings: Any) -> Any:
        """Do Trainer's step, and end the run where the weights are not finite any more.

        Raises:
            ModelError: They have.
        """
        try:
            loss = super().training_step(*args, **settings)
        except NotFiniteError as error:
            raise ModelError(self._diverged()) from error
        if not torch.isfinite(loss):
            raise ModelError(self._diverged())
        return loss

    def _diverged(self) -> str:
        rate = f"the learning rate is {self.args.learning_rate:g}"
        return (
            f"training diverged at step {self.state.global_step + 1}: train anew, in a new folder, with a lower one "
            f"({rate})."
        )

    def create_optimizer(self, model: Any = None) -> Any:
        """Trainer's optimizer, with a learning rate of its own for the line."""
        del model
        if self.optimizer is None:
            kind, settings = self.get_optimizer_cls_and_kwargs(self.args, self.model)
            line = [self.model.log_scale, self.model.offset]
            encoder = [weight for _, weight in self.model.trained() if all(weight is not one for one in line)]
            self.optimizer = kind([{"params": encoder}, {"params": line, "lr": LINE_RATE}], **settings)
        return self.optimizer


def collate(rows: Sequence[TrainingExample]) -> dict[str, Any]:
    """Return a batch as `TrainedMetric.forward` takes it."""
    predictions, references, targets, _ = zip(*rows, strict=True)
    return {
        "predictions": list(predictions),
        "references": list(references),
        "targets": torch.tensor(targets, dtype=torch.float32),
    }


def training_arguments(recipe: Recipe, folder: Path, batches: int, *, judged: bool, on_cpu: bool) -> TrainingArguments:
    """Return Trainer's settings.

    Args:
        recipe: Ours.
        folder: Where checkpoints go.
        batches: Steps of an epoch.
        judged: Whether there is a judge, to be asked after every epoch.
        on_cpu: Whether to leave accelerators alone.
    """
    steps = recipe.epochs * batches
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=recipe.epochs,
        per_device_train_batch_size=recipe.batch,
        learning_rate=recipe.rate,
        warmup_steps=int(WARM_UP * steps),
        seed=recipe.seed,
        eval_strategy="epoch" if judged else "no",
        save_strategy="steps" if recipe.save_steps else "epoch",
        save_steps=recipe.save_steps or 500,
        save_total_limit=2,
        logging_steps=min(LOG_STEPS, steps),
        logging_nan_inf_filter=False,
        remove_unused_columns=False,
        report_to=[],
        use_cpu=on_cpu,
        dataloader_pin_memory=False,
        disable_tqdm=not sys.stderr.isatty(),
    )
    if arguments.n_gpu > 1:
        # Trainer would cut a batch in pieces for several devices of one process, and lists of texts cannot be cut: one
        # device works.
        arguments._n_gpu = 1  # noqa: SLF001 (there is no public way)
    return arguments


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest checkpoint that is whole; one that a kill left half-written is passed over."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    return next((path for path in found if _is_whole(path)), None)


def _is_whole(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
        with safe_open(checkpoint / WEIGHTS, framework="pt") as file:
            return bool(file.keys())
    except (OSError, ValueError, SafetensorError):
        return False


def read_best(path: Path) -> DevelopmentAgreement:
    """Read how well the kept weights agree."""
    with safe_open(path, framework="pt") as file:
        return DevelopmentAgreement(**json.loads(file.metadata()["twmd"]))


def load_best(model: TrainedMetric, path: Path) -> DevelopmentAgreement:
    """Give a model the kept weights, and say how well they agree."""
    model.load_state_dict(load_file(path))
    return read_best(path)
