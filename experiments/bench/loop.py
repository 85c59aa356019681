"""Evaluations in a training loop: ``python -m experiments bench loop [EVALUATIONS ROWS]`` (50 of 1,000 rows).

A Seq2SeqTrainer with `make_compute_metrics` evaluates the same references again and again, with different generated
texts each time. Its model only replays recorded ids, so only the metric and decoding take time.
"""

from __future__ import annotations

import sys
import tempfile
import time
from statistics import median
from typing import Any

import torch
from datasets import Dataset
from transformers import (
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    PrinterCallback,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

from experiments.bench.texts import benchmark_pairs, machine
from twmd_registry.models.files import find_model
from twmd_registry.plugins.transformers import make_compute_metrics


class Replay(Seq2SeqTrainer):  # type: ignore[misc]
    """A trainer whose model generates the ids in its rows."""

    def prediction_step(self, _: Any, inputs: Any, *__: Any, **___: Any) -> tuple[None, torch.Tensor, torch.Tensor]:
        """Return no loss, the recorded ids and the labels."""
        return None, inputs["input_ids"], inputs["labels"]


def main(evaluations: int = 50, rows: int = 1000) -> None:
    """Print the processor seconds of the first evaluation, and of the others as a share of it."""
    name, predictions, references = benchmark_pairs(rows)
    tokenizer = AutoTokenizer.from_pretrained(find_model("embedded").folder)
    labels = tokenizer(references, truncation=True)["input_ids"]

    def generated(number: int) -> Dataset:
        # Each evaluation drops a different word, so no text occurs twice.
        texts = [" ".join(word for i, word in enumerate(text.split()) if i != number) for text in predictions]
        return Dataset.from_dict({"input_ids": tokenizer(texts, truncation=True)["input_ids"], "labels": labels})

    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        arguments = Seq2SeqTrainingArguments(
            folder,
            predict_with_generate=True,
            remove_unused_columns=False,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Replay(
            torch.nn.Linear(1, 1),
            arguments,
            data_collator=DataCollatorForSeq2Seq(tokenizer),
            processing_class=tokenizer,
            compute_metrics=make_compute_metrics(tokenizer, ["twmd"]),
        )
        trainer.remove_callback(PrinterCallback)  # it prints dictionaries
        for number in range(evaluations):
            dataset, start = generated(number), time.process_time()
            score = trainer.evaluate(dataset)["eval_twmd"]
            seconds.append(time.process_time() - start)
            print(f"{number + 1}: {score:.4f}, {seconds[-1]:.2f} s of processor time", file=sys.stderr)
    later = sorted(second / seconds[0] for second in seconds[1:])
    print(f"{name}, {evaluations} evaluations; {machine()}")
    print(f"first: {seconds[0]:.2f} s of processor time")
    print(f"later, x first: median {median(later):.2f}, {later[0]:.2f} to {later[-1]:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
