"""Profile the wall time of ``twmd score`` from start to end: ``python -m experiments bench profile``.

A thread samples the stacks of all others every few milliseconds. The encoding thread's frame counts, or the main
thread's while the former waits or has ended. torch's operators release Python's lock, so the sampling sees them line by
line.
"""

from __future__ import annotations

import argparse
import json
import linecache
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType

INTERVAL = 0.004
ENDS = "starts and ends Python"
PYTHON = "Python between these, and small operators"
PARTS = (  # the first entry whose two texts occur in a frame's file and source line, innermost frame first
    ("imports", "importlib", ""),
    ("products of matrices", "models/inference.py", "_linear_pointwise"),
    ("order of weights for oneDNN", "models/inference.py", "_reorder_linear_weight"),
    ("GELU", "models/", "functional.gelu"),
    ("attention", "models/packaged.py", "scaled_dot_product_attention"),
    ("attention", "models/packaged.py", "side.contiguous"),
    ("attention", "models/packaged.py", "scores"),
    ("layer norms", "nn/modules/normalization.py", ""),
    ("layer norms", "torch/nn/functional.py", "layer_norm"),
    ("adding of a layer's input", "models/packaged.py", "add_(hidden)"),
    ("embeddings of words and positions", "nn/modules/sparse.py", ""),
    ("embeddings of words and positions", "models/packaged.py", "parts["),
    ("tokenisation", "tokenizers", ""),
    ("tokenisation", "encode/encoder.py", "encode_batch"),
    ("loading of the model", "models/load.py", ""),
    ("loading of the model", "models/packaged.py", "file.get_tensor"),
    ("loading of the model", "models/packaged.py", "load_"),
    ("loading of the model", "models/packaged.py", "Tokenizer.from_file"),
    ("loading of the model", "models/files.py", ""),
    ("alignment", "twmd_registry/align/", ""),
    ("copies of vectors", "encode/", ""),
    ("copies of vectors", "engine/token_vectors.py", ""),
    ("copies of vectors", "models/vectors.py", ""),
    ("copies of vectors", "twmd_registry/tensors.py", ""),
)
WAITING = ("threading.py", "concurrent/futures", "queue.py")


def part_of(frame: FrameType | None) -> str | None:
    """Return the part that a thread computes; None if it waits."""
    if frame is not None and frame.f_code.co_filename.endswith(WAITING[0]) and "acquire" in _line(frame):
        return None
    if frame is not None and any(name in frame.f_code.co_filename for name in WAITING[1:]):
        return None
    while frame is not None:
        for part, file, text in PARTS:
            if file in frame.f_code.co_filename and text in _line(frame):
                return part
        frame = frame.f_back
    return PYTHON


def _line(frame: FrameType) -> str:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno or 0)


def observe(arguments: list[str]) -> None:
    """Run ``twmd`` in this process, and print as JSON how many seconds were spent in each part."""
    main_thread, seconds = threading.get_ident(), defaultdict[str, float](float)
    done = threading.Event()

    def watch() -> None:
        last = time.perf_counter()
        while not done.wait(INTERVAL):
            frames = sys._current_frames()
            others = [stack for thread, stack in frames.items() if thread not in {threading.get_ident(), main_thread}]
            busy = [part for stack in others if (part := part_of(stack))]
            now = time.perf_counter()
            seconds[busy[0] if busy else part_of(frames[main_thread]) or PYTHON] += now - last
            last = now

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    from twmd_registry.cli import main

    try:
        main(arguments)
    except SystemExit as end:
        if end.code:
            raise
    finally:
        done.set()
    watching.join()
    print(json.dumps(seconds))


def profile(folder: Path, dtype: str) -> dict[str, float]:
    """Return the seconds of each part in one run of ``twmd score``, in a new process; they sum up to its time."""
    texts, systems = str(folder / "references.txt"), str(folder / "predictions.txt")
    score = ["score", texts, "-i", systems, "-m", f"twmd;dtype={dtype}", "--quiet"]
    command = [sys.executable, "-m", "experiments.bench.profile", "--observe", *score]
    start = time.perf_counter()
    completed = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    parts: dict[str, float] = json.loads(completed.stdout.splitlines()[-1])
    return {**parts, ENDS: seconds - sum(parts.values())}


def main() -> None:
    """Print the shares of float32 and bfloat16, the largest of float32 first."""
    if sys.argv[1:2] == ["--observe"]:
        observe(sys.argv[2:])
        return
    from experiments.bench.texts import (  # its import time is not part of the command
        PAIRS,
        benchmark_pairs,
        print_table,
    )

    parser = argparse.ArgumentParser(prog="python -m experiments bench profile")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    options = parser.parse_args()
    name, predictions, references = benchmark_pairs(options.pairs)
    with tempfile.TemporaryDirectory() as folder:
        for file, lines in (("predictions", predictions), ("references", references)):
            text = "\n".join(line.replace("\n", " ") for line in lines) + "\n"
            Path(folder, f"{file}.txt").write_text(text, encoding="utf-8")
        runs = {dtype: profile(Path(folder), dtype) for dtype in ("float32", "bfloat16")}
    whole = {dtype: sum(parts.values()) for dtype, parts in runs.items()}
    names = sorted(set().union(*runs.values()), key=lambda part: -runs["float32"].get(part, 0))
    rows = [[part, *(f"{parts.get(part, 0) / whole[dtype]:.1%}" for dtype, parts in runs.items())] for part in names]
    print(name)
    headers = ["", *(f"{dtype}, {seconds:.1f} s" for dtype, seconds in whole.items())]
    print_table(rows, headers)


if __name__ == "__main__":
    main()
