"""One table: every contestant on the same texts in one run, in several interleaved rounds.

``--quick`` measures fewer contestants on fewer pairs, in one round. ``--headline`` measures the defaults of `twmd` and
bert_score. On a GPU ``python -m experiments bench pace --shape
roberta-large --device cuda --pairs 138000``.

A round measures each contestant once, and ratios are taken within a round, so other load on the machine affects all of
them. The table has the median of the rounds, and the smallest and largest ratio.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from statistics import median
from typing import Any

import torch

from experiments.bench.contestants import CONTESTANTS, DEFAULT, MODERN, Measured, Setting
from experiments.bench.texts import PAIRS, benchmark_pairs, machine, measure_apart, print_table
from twmd_registry.models.files import embedded_folder, find_model
from twmd_registry.registry.names import EMBEDDED_MODEL, MULTILINGUAL_MODEL, MetricName
from twmd_registry.registry.presets import default_preset

SHAPES: dict[str, tuple[dict[str, int], int]] = {
    "roberta-base": (
        {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
        10,
    ),
    "roberta-large": (
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
        19,
    ),
}
ROBERTA, _ = SHAPES["roberta-large"]
SHAPES["bert_score's default"] = ROBERTA | {"vocab_size": 50265}, 17
"""Sizes of encoders with random weights (speed does not depend on weights), and the layer that the TWMD paper reads.
"""
REAL = {"minilm": EMBEDDED_MODEL, "multilingual": MULTILINGUAL_MODEL}
"""Models that come as packages."""
BARE, PEER = "bare encoder", "bert_score"
"""Contestants in every table, as the basis of comparison."""
ROUNDS = 3
QUICK = ["twmd", "all four dense", "sentence-transformers encode"]
QUICK_PAIRS = 400


@contextmanager
def model_of(shape: str) -> Iterator[tuple[str, int]]:
    """Yield the folder of an encoder and the layer to read: a packaged model, or one with random weights and the
    embedded model's tokenizer.
    """
    if shape in REAL:
        yield str(find_model(REAL[shape]).folder), default_preset(MetricName.TWMD, REAL[shape]).keys["layer"]
        return
    from transformers import AutoTokenizer, RobertaConfig, RobertaModel

    sizes, layer = SHAPES[shape]
    tokenizer = AutoTokenizer.from_pretrained(embedded_folder())
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": 514} | sizes
    config: Any = RobertaConfig(**sizes, pad_token_id=tokenizer.pad_token_id)
    with tempfile.TemporaryDirectory() as folder:
        RobertaModel(config).save_pretrained(folder)
        tokenizer.model_max_length = 512
        tokenizer.save_pretrained(folder)
        yield folder, layer


def run(name: str, setting: Setting, pairs: int) -> Measured:
    """Measure one contestant in a separate process, with large memory pages and short waits, like ``twmd``."""
    arguments = name, setting.model, setting.layer, setting.device, pairs
    return Measured(**measure_apart("contestants", *arguments, THP_MEM_ALLOC_ENABLE="1", GOMP_SPINCOUNT="30000"))


def spread(ratios: list[float]) -> str:
    """Return the median of ratios and, if there are several, the smallest and the largest."""
    around = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
    return f"{median(ratios):.2f}{around}"


def main() -> None:
    """Print the time of each contestant as soon as it is measured, and the table at the end."""
    parser = argparse.ArgumentParser(prog="python -m experiments bench pace")
    parser.add_argument("--shape", choices=(*REAL, *SHAPES), default="minilm")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PAIRS} pairs by {', '.join(QUICK)}, one round")
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS))
    parser.add_argument("--headline", action="store_true", help="defaults alone, on the shape of bert_score's")
    options = parser.parse_args()
    pairs = options.pairs or (QUICK_PAIRS if options.quick else PAIRS)
    if options.headline:
        options.shape, chosen = "bert_score's default", {DEFAULT, PEER, MODERN}
    else:
        chosen = {BARE, PEER, *(options.only or (QUICK if options.quick else CONTESTANTS))}
    if MODERN in chosen and find_spec("modern_bert_score") is None:
        chosen.remove(MODERN)
        print(f"{MODERN} is left out: it is not installed (pip install {MODERN}, on Python 3.12 or newer)")
    names = [name for name in CONTESTANTS if name in chosen]
    device = f"{torch.cuda.get_device_name()}, " if options.device.startswith("cuda") else ""
    rounds: list[dict[str, Measured]] = []
    with model_of(options.shape) as (folder, layer):
        print(f"{benchmark_pairs(pairs)[0]}; {options.shape} to layer {layer}; {device}{machine()}", flush=True)
        for number in range(1, 1 + (options.rounds or (1 if options.quick else ROUNDS))):
            rounds.append({})
            for name in names:
                rounds[-1][name] = run(name, Setting(folder, layer, options.device), pairs)
                print(f"{number}. {name}: {rounds[-1][name].seconds:.1f} s", flush=True)
    rows = []
    for name in names:
        own = [measured[name] for measured in rounds]
        seconds = median(each.seconds for each in own)
        time = (
            [spread([measured[name].seconds / measured[BARE].seconds for measured in rounds])] if BARE in names else []
        )
        pace = spread([measured[PEER].seconds / measured[name].seconds for measured in rounds])
        megabytes = median(each.megabytes for each in own)
        memory = spread([measured[name].megabytes / measured[PEER].megabytes for measured in rounds])
        rows.append([name, f"{seconds:.1f}", f"{pairs / seconds:.3g}", *time, pace, f"{megabytes:.0f}", memory])
    times = ["x bare encoder's time"] if BARE in names else []
    headers = ["", "seconds", "pairs/s", *times, "x bert_score's pace", "peak MB", "x bert_score's memory"]
    print_table(rows, headers)


if __name__ == "__main__":
    main()
