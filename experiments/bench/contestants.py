"""The programs in the benchmark: ``contestants NAME MODEL LAYER DEVICE PAIRS`` measures one and prints JSON.

Each runs in a separate process, so its peak memory can be measured. Models are loaded, and a few texts are scored,
before the clock starts.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from experiments.bench.texts import benchmark_pairs
from twmd_registry.engine.scorer import Scorer, score_with
from twmd_registry.models.inference import ACCELERATOR_TOKENS, CPU_TOKENS
from twmd_registry.registry.names import Dtype
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec

DENSE = ("twmd", "trwmd", "bertscore_centered", "wordset_cka")
DEFAULT, MODERN = "twmd, default", "modern-bert-score"
WARM_UP = 20
"""Pairs to score before the clock starts."""
BATCH = 64

Texts = list[str]
Run = Callable[[Texts, Texts], Any]


class Setting(NamedTuple):
    """The setting of a measurement.

    Attributes:
        model: Folder of the encoder.
        layer: The hidden state to read.
        device: A torch device.
    """

    model: str
    layer: int
    device: str

    @property
    def batch(self) -> int:
        """Texts per batch for programs that batch by number of texts, suitable for the device."""
        return BATCH * (1 if torch.device(self.device).type == "cpu" else ACCELERATOR_TOKENS // CPU_TOKENS)


def bare(setting: Setting) -> Run:
    """Only transformers: distinct texts in sorted, padded batches, up to the layer that the metrics read."""
    from transformers import AutoModel, AutoTokenizer

    network, tokenizer = (
        AutoModel.from_pretrained(setting.model).float().eval(),
        AutoTokenizer.from_pretrained(setting.model),
    )
    network.encoder.layer = network.encoder.layer[: setting.layer]
    network.config.num_hidden_layers = setting.layer
    network.to(setting.device)

    def run(predictions: Texts, references: Texts) -> None:
        texts = sorted(set(predictions + references), key=len)
        with torch.inference_mode():
            for start in range(0, len(texts), setting.batch):
                batch = tokenizer(
                    texts[start : start + setting.batch], padding=True, truncation=True, return_tensors="pt"
                )
                network(**batch.to(setting.device))

    return run


def sentence_transformers(setting: Setting) -> Run:
    """sentence-transformers' encode of all distinct texts, up to the same layer: one pooled vector each, no score."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    transformer = Transformer(setting.model)
    transformer.auto_model.encoder.layer = transformer.auto_model.encoder.layer[: setting.layer]
    transformer.auto_model.config.num_hidden_layers = setting.layer
    model = SentenceTransformer(
        modules=[transformer, Pooling(transformer.get_word_embedding_dimension())], device=setting.device
    )
    return lambda predictions, references: model.encode(sorted({*predictions, *references}), batch_size=setting.batch)


def bert_score(setting: Setting, *, dtype: torch.dtype = torch.float32) -> Run:
    """bert_score on the same model and layer."""
    import bert_score as peer

    scorer = peer.BERTScorer(
        model_type=setting.model, num_layers=setting.layer, batch_size=setting.batch, device=setting.device
    )
    scorer._model.to(dtype)  # it has no such setting
    score: Run = scorer.score
    return score


def modern_bert_score(setting: Setting) -> Run:
    """modern-bert-score on the same model, truncated at the layer, like its own models."""
    from modern_bert_score import BertScore

    scorer: Any = BertScore(setting.model, device=setting.device)
    network = scorer.inference_engine.model[0].auto_model
    network.encoder.layer = network.encoder.layer[: setting.layer]
    run: Run = scorer
    return run


def torchmetrics(setting: Setting) -> Run:
    """Torchmetrics' BERTScore on the same model and layer; it loads the model in every call."""
    from torchmetrics.functional.text import bert_score as peer

    return lambda predictions, references: peer(
        predictions,
        references,
        model_name_or_path=setting.model,
        num_layers=setting.layer,
        batch_size=setting.batch,
        truncation=True,
        device=setting.device,
    )


def ours(setting: Setting, metrics: tuple[str, ...] = ("twmd",), dtype: Dtype = "float32") -> Run:
    """Return several metrics that are scored together."""

    def scorer(metric: str) -> Scorer:
        keys: dict[str, Any] = {"ngram": 1} if metric == "moverscore" else {}
        spec = make_spec(metric, model=setting.model, layer=setting.layer, centering="none", dtype=dtype, **keys)
        return Scorer(spec, RunOptions(device=setting.device))

    scorers = [scorer(metric) for metric in metrics]
    return lambda predictions, references: score_with(scorers, predictions, references)


def default(setting: Setting) -> Run:
    """`twmd` with the default preset, whatever model the others use."""
    return Scorer(make_spec("twmd"), RunOptions(device=setting.device)).score


CONTESTANTS: dict[str, Callable[[Setting], Run]] = {
    "bare encoder": bare,
    **{
        metric: lambda setting, metric=metric: ours(setting, (metric,))  # type: ignore[misc]
        for metric in (*DENSE, "moverscore")
    },
    "all four dense": lambda setting: ours(setting, DENSE),
    "twmd, bfloat16": lambda setting: ours(setting, dtype="bfloat16"),
    "all four dense, bfloat16": lambda setting: ours(setting, DENSE, "bfloat16"),
    "bert_score": bert_score,
    DEFAULT: default,
    MODERN: modern_bert_score,
    "bert_score, bfloat16": lambda setting: bert_score(setting, dtype=torch.bfloat16),
    "torchmetrics BERTScore": torchmetrics,
    "sentence-transformers encode": sentence_transformers,
}
"""Programs by name, in the order of the table; ``moverscore`` moves single tokens."""


class Measured(NamedTuple):
    """A contestant's time and memory.

    Attributes:
        seconds: Time of the whole run.
        megabytes: Peak memory: main memory, or an accelerator's.
    """

    seconds: float
    megabytes: float


def measure(name: str, setting: Setting, predictions: Texts, references: Texts) -> Measured:
    """Run one contestant."""
    run = CONTESTANTS[name](setting)
    run(predictions[:WARM_UP], references[:WARM_UP])
    _wait(setting.device)
    start = time.perf_counter()
    run(predictions, references)
    _wait(setting.device)
    return Measured(time.perf_counter() - start, peak_megabytes(setting.device))


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def peak_megabytes(device: str) -> float:
    """Peak resident memory of this process or its accelerator. ru_maxrss would include the parent's."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 1e6
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def main() -> None:
    """Measure the named contestant."""
    name, model, layer, device, number = sys.argv[1:]
    _, predictions, references = benchmark_pairs(int(number))
    print(json.dumps(measure(name, Setting(model, int(layer), device), predictions, references)._asdict()))


if __name__ == "__main__":
    main()
