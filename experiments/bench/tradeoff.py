"""Agreement with human ratings against speed: the documentation's scatter plot of ``tradeoff.tsv``.

``--measure`` measures the pace of every row again, or of the rows ``NAME...``. The pace is pairs per second of
processor time in one thread, so other load changes it little. Missing models are replaced by random weights of the
same size, because speed does not depend on weights. It also measures the agreement of rows without another source.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.bench.contestants import Setting, bert_score
from experiments.bench.texts import SHARED, benchmark_pairs, measure_apart
from twmd_registry import load
from twmd_registry.engine.scorer import check_scorers
from twmd_registry.models.files import embedded_folder

TABLE = Path(__file__).with_name("tradeoff.tsv")
PICTURE = Path(__file__).resolve().parents[2] / "docs/pictures/tradeoff.svg"
WARM_UP = 20
MIN_SECONDS = 2.0
"""Minimum processor time of a measurement."""

Texts = list[str]
Score = Callable[[Texts, Texts], Any]


class Row(NamedTuple):
    """A metric in the plot.

    Attributes:
        name: As shown in the plot.
        kind: ``ours``, ``tuned`` (ours, trained on ratings) or ``peer``.
        program: The program to time: a metric of this package, ``sacrebleu:NAME``, ``bert_score:LAYER``, or one of the
            two random models, ``mpnet`` and ``roberta-large``.
        pearson: 100 times the correlation with the ratings of WMT17; empty if it is measured here.
        source: The source of the agreement.
        pace: Pairs per second of processor time.
        label: The position of the name: ``right``, ``left``, ``above`` or ``below`` its point.
    """

    name: str
    kind: str
    program: str
    pearson: str
    source: str
    pace: str
    label: str


def read_rows() -> list[Row]:
    """Read the recorded figures."""
    with TABLE.open(encoding="utf-8", newline="") as lines:
        return [Row(**row) for row in csv.DictReader(lines, delimiter="\t")]


def write_rows(rows: list[Row]) -> None:
    """Record figures."""
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerows([Row._fields, *rows])


def random_model(program: str, folder: str) -> str:
    """Save a model with random weights and the embedded model's tokenizer."""
    import torch
    from transformers import AutoTokenizer, MPNetConfig, MPNetModel, RobertaConfig, RobertaModel

    tokenizer = AutoTokenizer.from_pretrained(embedded_folder())
    common = {"vocab_size": len(tokenizer), "max_position_embeddings": 514, "pad_token_id": tokenizer.pad_token_id}
    large = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    torch.manual_seed(0)
    config: Any = MPNetConfig(**common) if program == "mpnet" else RobertaConfig(**common, **large)
    (MPNetModel if program == "mpnet" else RobertaModel)(config).save_pretrained(folder)
    tokenizer.model_max_length = 512
    tokenizer.save_pretrained(folder)
    return folder


def score_function(program: str, folder: str) -> Score:
    """Return the function to time."""
    if program == "mpnet":
        return load(
            "twmd", "paper", model=random_model(program, folder), layer="7-9", aggregation="mean", any_language=True
        ).score
    if program == "roberta-large":
        return bert_score(Setting(random_model(program, folder), 19, "cpu"))
    if program.startswith("bert_score:"):
        return bert_score(Setting(str(embedded_folder()), int(program.partition(":")[2]), "cpu"))
    if program.startswith("sacrebleu:"):
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
        from sacrebleu.metrics.ter import TER

        metric: Any = {"bleu": BLEU(effective_order=True), "chrf": CHRF(), "ter": TER()}[program.partition(":")[2]]
        sign = -1 if program.endswith("ter") else 1
        return lambda predictions, references: [
            sign * metric.sentence_score(prediction, [reference]).score
            for prediction, reference in zip(predictions, references, strict=True)
        ]
    return check_scorers([program])[0].score


def measure(program: str, agreement: str) -> dict[str, float]:
    """Return the pace of a program, and its agreement on request."""
    import torch

    torch.set_num_threads(1)
    _, predictions, references = benchmark_pairs()
    with tempfile.TemporaryDirectory() as folder:
        score = score_function(program, folder)
        score(predictions[:WARM_UP], references[:WARM_UP])
        pairs, seconds = 20, 0.0
        while seconds < MIN_SECONDS and pairs < len(predictions):
            pairs = min(len(predictions), 2 * pairs)
            start = time.process_time()
            score(predictions[:pairs], references[:pairs])
            seconds = time.process_time() - start
        found = {"pace": pairs / seconds}
        if agreement:
            scores = score(predictions, references)
            found["pearson"] = 100 * mean_pearson(scores[2].tolist() if isinstance(scores, tuple) else scores)
    return found


def mean_pearson(scores: list[float]) -> float:
    """Return the mean over language pairs of Pearson's r with the ratings of WMT17."""
    groups: dict[str, list[tuple[float, float]]] = defaultdict(list)
    lines = (SHARED / "data/wmt/wmt17.jsonl").read_text(encoding="utf-8").split("\n")
    for score, row in zip(scores, map(json.loads, filter(None, lines)), strict=True):
        groups[row["lang"]].append((score, float(row["score"])))
    return float(np.mean([np.corrcoef(np.array(group).T)[0, 1] for group in groups.values()]))


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 440, 56, 20, 16, 56
PACES, PEARSONS = (1.0, 20000.0), (40.0, 86.0)
STYLE = """text{font:13px system-ui,sans-serif;fill:#24292f}.axis{fill:#57606a}line{stroke:#d0d7de}
.ours circle{fill:#2f7cb0}.tuned circle{fill:#c2410c}.peer circle{fill:#8c959f}.tuned text,.ours text{font-weight:600}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.axis{fill:#9aa4ae}line{stroke:#3d444d}
.ours circle{fill:#6cb6ff}.tuned circle{fill:#f78c4e}.peer circle{fill:#8b949e}}"""
PLACES = {"right": (9, 4, "start"), "left": (-9, 4, "end"), "above": (0, -10, "middle"), "below": (0, 19, "middle")}


def across(pace: float) -> float:
    """Return the position of a pace on a logarithmic axis."""
    low, high = map(math.log, PACES)
    return LEFT + (math.log(pace) - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def up(pearson: float) -> float:
    """Return the position of a correlation."""
    low, high = PEARSONS
    return HEIGHT - BOTTOM - (pearson - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def picture(rows: list[Row]) -> Iterator[str]:
    """Yield the lines of an SVG for light and dark pages."""
    described = "Agreement with people (Pearson, WMT17) and pace of " + "; ".join(row.name for row in rows)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    yield f"<title>{escape(described)}</title><style>{STYLE}</style>"
    for pace in (1, 10, 100, 1000, 10000):
        x = f"{across(pace):.1f}"
        yield f'<line x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        yield f'<text class="axis" x="{x}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{pace:,}</text>'
    for pearson in (40, 50, 60, 70, 80):
        y = f"{up(pearson):.1f}"
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text class="axis" x="{LEFT - 10}" y="{up(pearson) + 4:.1f}" text-anchor="end">{pearson}</text>'
    middle = (TOP + HEIGHT - BOTTOM) / 2
    below, beside = (
        f'x="{(WIDTH + LEFT) / 2}" y="{HEIGHT - 10}"',
        f'x="14" y="{middle}" transform="rotate(-90 14 {middle})"',
    )
    yield f'<text class="axis" {below} text-anchor="middle">pairs per second of one core</text>'
    yield f'<text class="axis" {beside} text-anchor="middle">Pearson r x 100</text>'
    for row in rows:
        at, height = across(float(row.pace)), up(float(row.pearson))
        right, down, anchor = PLACES[row.label]
        yield f'<g class="{row.kind}"><circle cx="{at:.1f}" cy="{height:.1f}" r="5"/>'
        yield f'<text x="{at + right:.1f}" y="{height + down:.1f}" text-anchor="{anchor}">{escape(row.name)}</text></g>'
    yield "</svg>"


def main() -> None:
    """Draw the plot, or measure its data."""
    parser = argparse.ArgumentParser(prog="experiments bench tradeoff", description=__doc__)
    parser.add_argument("--measure", nargs="*", metavar="NAME", help="measure these rows again, all without a NAME")
    parser.add_argument("--program", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.program:
        print(json.dumps(measure(*arguments.program)))
        return
    rows = read_rows()
    if arguments.measure is not None:
        for number, row in enumerate(rows):
            if row.name in arguments.measure or not arguments.measure:
                wanted = "yes" if row.source == "this program" else ""
                found = measure_apart("tradeoff", "--program", row.program, wanted, OMP_NUM_THREADS="1")
                changed = {name: f"{value:.1f}" for name, value in found.items()}
                rows[number] = row._replace(**changed)
                print(row.name, changed, file=sys.stderr)
                write_rows(rows)
    PICTURE.write_text("\n".join(picture(rows)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
