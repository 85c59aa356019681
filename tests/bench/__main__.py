"""Run every contestant on the same pairs in this process, then the memory run, and print one table."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate

from tests.bench.texts import benchmark_pairs
from twmd_registry.models.files import embedded_folder
from twmd_registry.registry.spec import make_spec
from twmd_registry.scoring import Scorer, score_all

LAYER = 4
BATCH = 64
DENSE = ("twmd", "trwmd", "bertscore_centered", "wordset_cka")
MEMORY_PAIRS = 100_000
MEMORY_ARGUMENT = "--memory"


def timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def bare_encoder(predictions: list[str], references: list[str]) -> Callable[[], None]:
    """transformers alone: different sentences, sorted, padded batches of 64, to the layer that the metrics read."""
    from transformers import AutoModel, AutoTokenizer

    folder = embedded_folder()
    network, tokenizer = AutoModel.from_pretrained(folder).float().eval(), AutoTokenizer.from_pretrained(folder)
    network.encoder.layer = network.encoder.layer[:LAYER]
    network.config.num_hidden_layers = LAYER
    sentences = sorted(set(predictions + references), key=len)

    def run() -> None:
        with torch.inference_mode():
            for start in range(0, len(sentences), BATCH):
                network(**tokenizer(sentences[start : start + BATCH], padding=True, truncation=True, return_tensors="pt"))

    return run


def peers(predictions: list[str], references: list[str]) -> dict[str, Callable[[], Any]]:
    """bert_score and torchmetrics on the same model and layer."""
    import bert_score
    from torchmetrics.functional.text import bert_score as torchmetrics_bert_score

    folder = str(embedded_folder())
    return {
        "bert_score": lambda: bert_score.score(predictions, references, model_type=folder, num_layers=LAYER, batch_size=BATCH),
        "torchmetrics BERTScore": lambda: torchmetrics_bert_score(
            predictions, references, model_name_or_path=folder, num_layers=LAYER, batch_size=BATCH, truncation=True
        ),
    }


def ours(predictions: list[str], references: list[str]) -> dict[str, Callable[[], Any]]:
    """One metric, four together, exact transport; models loaded before the clock starts."""

    def run(metrics: tuple[str, ...], **keys: Any) -> Callable[[], Any]:
        scorers = [Scorer(make_spec(metric, layer=LAYER, centering="none", **keys)) for metric in metrics]
        assert all(scorer.spec for scorer in scorers)
        return lambda: score_all(scorers, predictions, references)

    return {
        "twmd": run(("twmd",)),
        "twmd, trwmd, bertscore_centered, wordset_cka together": run(DENSE),
        "moverscore (exact transport of single tokens)": run(("moverscore",), ngram=1),
        "twmd, bfloat16": run(("twmd",), dtype="bfloat16"),
    }


def memory_run() -> None:
    """In a process of its own: score many synthetic pairs and print the peak memory in megabytes."""
    from tests.bench.texts import synthetic_pairs

    predictions, references = synthetic_pairs(MEMORY_PAIRS)
    spec = make_spec("twmd", layer=LAYER, centering="batch", centering_size=32)
    seconds = timed(lambda: Scorer(spec).score(predictions, references))
    print(f"{peak_megabytes():.0f} {seconds:.0f}")


def peak_megabytes() -> float:
    """Largest resident memory of this process. (ru_maxrss would not do: a child starts with its parent's.)"""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def main() -> None:
    """Print the table."""
    name, predictions, references = benchmark_pairs()
    print(
        f"{name}; MiniLM to layer {LAYER}, float32; {platform.processor() or platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}"
    )
    bare = bare_encoder(predictions, references)
    contestants = {"bare encoder": bare, **ours(predictions, references), **peers(predictions, references), "bare encoder, again": bare}
    seconds = {what: timed(run) for what, run in contestants.items()}
    base = (seconds["bare encoder"] + seconds["bare encoder, again"]) / 2
    rows = [[what, f"{s:.1f}", f"{len(predictions) / s:.0f}", f"{s / base:.2f}"] for what, s in seconds.items()]
    print(tabulate(rows, headers=["", "seconds", "pairs/s", "x bare encoder"], disable_numparse=True))
    done = subprocess.run([sys.executable, "-m", "tests.bench", MEMORY_ARGUMENT], capture_output=True, text=True, check=True)
    peak, took = done.stdout.split()
    print(f"peak memory for {MEMORY_PAIRS:,} pairs, batch centering, float32: {peak} MB, {took} s")


if __name__ == "__main__":
    memory_run() if MEMORY_ARGUMENT in sys.argv else main()
