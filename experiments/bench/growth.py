"""How time and memory grow with the number of pairs: ``python -m experiments bench growth 100000 1000000``.

For every metric, a tiny model with random weights scores distinct pairs of 6 words, which measures the texts and their
data rather than the encoder.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from experiments.bench.contestants import peak_megabytes
from experiments.bench.texts import measure_apart
from tests.tiny import WORDS, save_encoder, save_regressor
from twmd_registry.engine.scorer import load
from twmd_registry.registry.spec import spec_with_keys

SIZES = (100_000, 1_000_000)
METRICS = ("twmd", "trwmd", "moverscore", "bertscore_centered", "wordset_cka", "sbert", "stsscore", "ensemble")
ONE = "--one"


def make_texts(number: int, shift: int) -> list[str]:
    """Return distinct texts of 6 words."""
    base = len(WORDS)
    return [" ".join(WORDS[(i // base**k + shift * (k == 5)) % base] for k in range(6)) for i in range(number)]


def measure(metric: str, number: int, folder: str) -> None:
    """Score pairs; print seconds and the process's megabytes: with the model, with the texts, and the peak."""
    keys = f"model={folder}/regressor;scale=5" if metric == "stsscore" else f"model={folder}/encoder;layer=2"
    is_mean = metric == "ensemble"
    scorer = load(f"ensemble(twmd;{keys},sbert;{keys})" if is_mean else spec_with_keys(f"{metric};{keys}"))
    scorer.score(make_texts(32, 0), make_texts(32, 1))
    loaded = peak_megabytes("cpu")
    predictions, references = make_texts(number, 0), make_texts(number, 1)
    texts, start = peak_megabytes("cpu"), time.perf_counter()
    scorer.score(predictions, references)
    print(json.dumps([time.perf_counter() - start, loaded, texts, peak_megabytes("cpu")]))


def main() -> None:
    """Measure every metric with every number of pairs in a separate process, and print its row."""
    headers = ("pairs", "seconds", "MB: model", "texts", "most", "less texts")
    print(f"{'metric':18}", *(f"{name:>10}" for name in headers), flush=True)
    metrics = [word for word in sys.argv[1:] if not word.isdecimal()] or METRICS
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()] or SIZES
    with tempfile.TemporaryDirectory() as folder:
        save_encoder("bert", Path(folder) / "encoder")
        save_regressor(Path(folder) / "regressor")
        for metric in metrics:
            for number in numbers:
                seconds, loaded, texts, most = measure_apart("growth", ONE, metric, number, folder)
                cells = f"{number:,}", f"{seconds:.1f}", *(f"{x:.0f}" for x in (loaded, texts - loaded, most))
                print(f"{metric:18}", *(f"{cell:>10}" for cell in (*cells, f"{most - texts + loaded:.0f}")), flush=True)


if __name__ == "__main__":
    measure(sys.argv[2], int(sys.argv[3]), sys.argv[4]) if ONE in sys.argv else main()
