"""Pairs per second of an lm-evaluation-harness task scored with twmd, compared with the command line on the same texts:
for our scoring, and for everything after the model's answers (lm_eval compiles its templates for every document, and
bootstraps the standard error).

Run by ``make bench``, or separately: ``python -m experiments bench lm_eval PAIRS TRIALS``.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from experiments.bench.command_line import measure_command_line
from experiments.bench.texts import PAIRS, benchmark_pairs, print_table

TASK = """
task: bench
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{prediction}}"
doc_to_target: "{{reference}}"
metric_list: [{metric: twmd, aggregation: !function twmd_registry.plugins.lm_eval.corpus_score, higher_is_better: true}]
"""


def measure_task(folder: Path, predictions: list[str], references: list[str]) -> tuple[float, float, float, float]:
    """Return wall and processor seconds from the model's answers to the results, the score, and the seconds of our
    scoring.
    """
    from lm_eval.evaluator import evaluate
    from lm_eval.models.dummy import DummyLM
    from lm_eval.tasks import TaskManager

    task_metrics: Any = importlib.import_module("twmd_registry.plugins.lm_eval")
    answered = busy = scoring = 0.0
    score = task_metrics.score

    def timed(*texts: Any, **keys: Any) -> Any:
        nonlocal scoring
        started = time.perf_counter()
        scores = score(*texts, **keys)
        scoring = time.perf_counter() - started
        return scores

    class Echo(DummyLM):  # type: ignore[misc]
        """A model that answers with the prompt."""

        def generate_until(self, requests: Sequence[Any], **_: object) -> list[str]:
            nonlocal answered, busy
            answered, busy = time.perf_counter(), time.process_time()
            return [request.args[0] for request in requests]

    rows = [{"prediction": p, "reference": r} for p, r in zip(predictions, references, strict=True)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    (folder / "task.yaml").write_text(TASK.replace("rows.jsonl", str(folder / "rows.jsonl")), encoding="utf-8")
    tasks = TaskManager(include_path=str(folder), include_defaults=False).load(["bench"])
    with patch.object(task_metrics, "score", timed):
        found = evaluate(Echo(), tasks, bootstrap_iters=1000)["results"]["bench"]
    assert found["twmd_signature,none"].startswith("twmd|")
    return time.perf_counter() - answered, time.process_time() - busy, found["twmd,none"], scoring


def _row(name: str, number: int, seconds: float, of_line: float, busy: float | None = None) -> list[str]:
    used = "" if busy is None else f"{busy:.1f}"
    return [name, f"{number / seconds:.0f}", used, f"{of_line / seconds:.2f}"]


def main() -> None:
    """Measure the command line and the task in turn; print the table."""
    if importlib.util.find_spec("lm_eval") is None:
        print("experiments.bench.lm_eval: skipped, lm_eval is not installed")
        return
    os.environ["DISABLE_MULTIPROC"] = "1"  # lm_eval's bootstrap in this process
    os.environ["THP_MEM_ALLOC_ENABLE"] = "1"  # large pages, which the command line asks torch for; see docs/speed.md
    number, trials = map(int, sys.argv[1:3] or (PAIRS, 2))
    name, predictions, references = benchmark_pairs(number)
    print(f"{name}; embedded model, twmd", flush=True)
    rows = []
    for trial in range(trials + 1):
        with tempfile.TemporaryDirectory() as folder:
            if trial == 0:  # loads the model
                measure_task(Path(folder), predictions[:2], references[:2])
                continue
            of_line = measure_command_line(Path(folder), predictions, references)
            of_task = measure_task(Path(folder), predictions, references)
        assert abs(of_task[2] - of_line[2]) < 1e-6
        rows.append(_row("twmd score", number, of_line[0], of_line[0], of_line[1]))
        rows.append(_row("lm_eval: scoring", number, of_task[3], of_line[0]))
        rows.append(_row("lm_eval: all after the answers", number, of_task[0], of_line[0], of_task[1]))
        print(*rows[-3:], sep="\n", flush=True)
    print_table(rows, ["", "pairs/s", "CPU s", "of twmd score's pace"])


if __name__ == "__main__":
    main()
