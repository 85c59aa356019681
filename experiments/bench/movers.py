"""MoverScore against its original's loop, and the cost of exact transport relative to the encoder: ``python -m
experiments.bench.movers [PAIRS]``.

The original (first release) is reimplemented on current libraries: every hidden layer of every text, minimum, mean and
maximum of the last five, one matrix of distances between all tokens of both texts, and an exact solver, pair by pair.
It encodes 256 texts at once; with ``batch 1`` the encoder also gets one pair at a time.
"""

from __future__ import annotations

import string
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import ot
import torch

from experiments.bench.contestants import Setting, bare
from experiments.bench.pace import model_of
from experiments.bench.texts import benchmark_pairs, machine, print_table
from twmd_registry import align
from twmd_registry.engine.scorer import Scorer, score_with
from twmd_registry.models.files import embedded_folder
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.spec import make_spec

LAST = 5
Idf = Callable[[int], float]


def timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


class OriginalLoop:
    """The original's functions, one for one."""

    def __init__(self) -> None:
        from transformers import AutoModel, AutoTokenizer

        folder = embedded_folder()
        self.network, self.tokenizer = (
            AutoModel.from_pretrained(folder).float().eval(),
            AutoTokenizer.from_pretrained(folder),
        )

    def idf(self, texts: Sequence[str]) -> Idf:
        counts = Counter(token for text in texts for token in set(self.tokenizer(text)["input_ids"]))
        return lambda token: float(np.log((len(texts) + 1) / (counts[token] + 1)))

    def encode(self, texts: Sequence[str]) -> list[tuple[np.ndarray, list[int]]]:
        """Vectors (3 D) and token ids of every text."""
        inputs = self.tokenizer(list(texts), padding=True, truncation=True, max_length=512, return_tensors="pt")
        with torch.inference_mode():
            states = torch.stack(self.network(**inputs, output_hidden_states=True).hidden_states[1:])
        states = states / states.norm(dim=-1, keepdim=True)
        last = states[-LAST:]
        vectors = torch.cat([last.amin(0), last.mean(0), last.amax(0)], dim=-1)
        lengths = inputs["attention_mask"].sum(1).tolist()
        return [(vectors[b, :n].numpy(), inputs["input_ids"][b, :n].tolist()) for b, n in enumerate(lengths)]

    def kept(self, text: tuple[np.ndarray, list[int]], idf: Idf) -> tuple[np.ndarray, np.ndarray]:
        vectors, ids = text
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        rows = [i for i, token in enumerate(tokens) if token not in set(string.punctuation) and "##" not in token]
        return vectors[rows], np.array([idf(ids[i]) for i in rows])

    def pair(self, one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> float:
        (x, a), (y, b) = one, other
        w = np.concatenate([x, y])
        w = w / (np.linalg.norm(w, axis=1, keepdims=True) + 1e-30)
        norms = np.square(w).sum(1)
        distances = np.maximum(norms[:, None] + norms[None, :] - 2 * w @ w.T, 0).astype(np.float64)
        left, right = np.concatenate([a, np.zeros(len(b))]), np.concatenate([np.zeros(len(a)), b])
        return 1 - float(ot.emd2(left / left.sum(), right / right.sum(), distances))

    def score(self, predictions: Sequence[str], references: Sequence[str], batch: int) -> list[float]:
        of_references, of_predictions = self.idf(references), self.idf(predictions)
        found = []
        for start in range(0, len(predictions), batch):
            refs, hyps = self.encode(references[start : start + batch]), self.encode(predictions[start : start + batch])
            found += [
                self.pair(self.kept(r, of_references), self.kept(h, of_predictions))
                for r, h in zip(refs, hyps, strict=True)
            ]
        return found


def solver_clock(run: Callable[[], Any]) -> float:
    """Seconds spent in exact transport."""
    aligner, spent = align.ALIGNERS[MetricName.MOVERSCORE], [0.0]

    def clocked(*arguments: Any) -> Any:
        result: list[Any] = []
        spent[0] += timed(lambda: result.append(aligner(*arguments)))
        return result[0]

    align.ALIGNERS[MetricName.MOVERSCORE] = clocked
    try:
        run()
    finally:
        align.ALIGNERS[MetricName.MOVERSCORE] = aligner
    return spent[0]


def main(most: int | None = None) -> None:
    """Print the tables for the first pairs, or for all."""
    name, predictions, references = benchmark_pairs()
    predictions, references = predictions[:most], references[:most]
    print(f"{name}, of them {len(predictions)}; MiniLM, float32; {machine()}")
    scorers = {
        "moverscore-v1 here": Scorer(make_spec("moverscore", "moverscore-v1")),
        "moverscore-v1 here, bfloat16": Scorer(make_spec("moverscore", "moverscore-v1", dtype="bfloat16")),
        "moverscore here, default": Scorer(make_spec("moverscore")),
    }
    assert all(scorer.spec for scorer in scorers.values())  # loads the models before the clock starts
    original, scores = OriginalLoop(), dict[str, Sequence[float]]()

    def ours(what: str) -> None:
        scores[what] = score_with([scorers[what]], predictions, references)[0].scores

    def loop(batch: int) -> None:
        scores[f"original, batch {batch}"] = original.score(predictions, references, batch)

    with model_of("minilm") as (folder, layer):
        encoder = bare(Setting(folder, layer, "cpu"))
    contestants: dict[str, Callable[[], None]] = {"bare encoder, layer 4": lambda: encoder(predictions, references)}
    contestants |= {what: partial(ours, what) for what in scorers}
    contestants |= {f"original, batch {batch}": partial(loop, batch) for batch in (256, 1)}
    seconds = {what: timed(run) for what, run in contestants.items()}
    rows = [[what, f"{s:.1f}", f"{seconds['original, batch 1'] / s:.1f}"] for what, s in seconds.items()]
    print_table(rows, ["", "seconds", "times as fast as the original, batch 1"])
    off = np.abs(np.array(scores["moverscore-v1 here"]) - np.array(scores["original, batch 1"]))
    print(f"the original's scores: {(off <= 1e-4).sum()} of {len(off)} within 1e-4; median {np.median(off):.1e}")
    for what in ("moverscore here, default", "moverscore-v1 here"):
        spent = solver_clock(partial(score_with, [scorers[what]], predictions, references))
        print(
            f"exact transport, {what}: {spent:.2f} s = {spent / seconds['bare encoder, layer 4']:.2f} x the "
            "bare encoder"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None)
