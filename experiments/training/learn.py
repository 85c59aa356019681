"""Training on rated sets with different scales. Ratings are z-scores within a group (a set and a language). A batch
comes from one group. It has several systems' outputs for a segment, which are also compared with each other.

The loss of a batch is ``MSE_SHARE mse + (1 - r) + ranking``: the squared error of the group's own line on the
similarity, Pearson's r, and for pairs of one segment whose ratings differ by more than `RESOLUTION` either RankNet,
``-log sigma(d)`` with d the better one's lead on the line, or MarginMSE, ``(d - (z - z'))^2``.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from peft.tuners.lora import LoraLayer
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.nn import functional

from experiments.training.small_adapter import CONFIG, WEIGHTS
from twmd_registry.encode.encoder import Encoder
from twmd_registry.engine.pairs import Segments
from twmd_registry.engine.scorer import Scorer, split_mean
from twmd_registry.engine.token_backend import TokenAlignmentBackend
from twmd_registry.errors import SpecError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.overlap import TRAINING_DATA, write_hashes
from twmd_registry.models.files import find_adapter
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.paths import write_atomically
from twmd_registry.train.data import TrainingData, hashes_of
from twmd_registry.train.model import TrainedMetric, add_lora, lora_modules, set_dropout
from twmd_registry.train.recipe import MSE_SHARE, Recipe
from twmd_registry.train.trained_files import save_adapter, save_documents

RESOLUTION = 0.25
"""Ratings that differ by less, in standard deviations, count as tied, because raters are not more precise."""
SYSTEMS = 4
"""Maximum outputs per segment in a batch. They share the reference, which is encoded once."""
WINDOW = 8
"""Number of batches of similar length from which one is drawn."""
WARM_UP = 0.06
LINE_RATE = 1e-2
CLIP = 1.0
REFERENCES = 4
"""Maximum references per segment."""

Ranking = Literal["none", "ranknet", "margin"]
LINES = frozenset({"slopes", "offsets"})
CHECKPOINT, LOG = "checkpoints/run.safetensors", "log.jsonl"


class Weighted(NamedTuple):
    """A training set with z-scores as ratings, and its sampling weight."""

    name: str
    rated: RatedSegments
    weight: float


class Plan(NamedTuple):
    """Settings of a run. Layers up to `frozen` are not trained; `start` is an initial adapter."""

    spec: MetricSpec
    steps: int
    batch: int = 24
    rank: int = 32
    rate: float = 5e-4
    dropout: float = 0.0
    frozen: int = 0
    ranking: Ranking = "ranknet"
    ranking_weight: float = 0.5
    start: str | None = None
    seed: int = 1
    every: int = 50

    def describe(self) -> str:
        """Return the settings in a line, as JSON."""
        values = self._asdict() | {"spec": {"metric": self.spec.metric, **self.spec.values()}}
        return json.dumps({name: value for name, value in values.items() if name != "every"})


class Drawn(NamedTuple):
    """A batch: texts, z-scores, the index of each row's segment, and the index of the group."""

    segments: Segments
    ratings: Tensor
    items: Tensor
    group: int


class Batches:
    """Draws a batch that depends only on its step, so a resumed run draws the same batches."""

    def __init__(self, sets: Sequence[Weighted], batch: int, seed: int) -> None:
        """Group rows by set and language, and in a group by segment, sorted by length."""
        self._sets, self._batch, self._seed = sets, batch, seed
        self._pools: list[tuple[int, list[np.ndarray]]] = []
        shares: list[float] = []
        for number, (_, rated, weight) in enumerate(sets):
            groups = np.array(rated.group)
            for group in sorted(set(rated.group)):
                rows = np.flatnonzero(groups == group)
                self._pools.append((number, _by_segment(rated, rows)))
                shares.append(weight * len(rows) / len(groups))
        self._shares = np.array(shares) / sum(shares)

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._pools)

    def draw(self, step: int) -> Drawn:
        """Return the batch of a step."""
        draw = np.random.default_rng([self._seed, step])
        group = int(draw.choice(len(self._pools), p=self._shares))
        number, segments = self._pools[group]
        size = min(len(segments), WINDOW * self._batch)
        start = int(draw.integers(len(segments) - size + 1))
        rows, items = list[int](), list[int]()
        for item in draw.permutation(np.arange(start, start + size)).tolist():
            own = segments[item]
            chosen = draw.permutation(own)[: min(SYSTEMS, self._batch - len(rows))].tolist()
            rows += chosen
            items += [item] * len(chosen)
            if len(rows) >= self._batch:
                break
        rated = self._sets[number].rated
        references = [_some(rated.references[row], draw) for row in rows]
        sources = [rated.source[row] for row in rows] if rated.source else None
        texts = Segments([rated.predictions[row] for row in rows], references, sources)
        ratings = torch.tensor(rated.ratings[rows], dtype=torch.float32)
        return Drawn(texts, ratings, torch.tensor(items), group)


def _by_segment(rated: RatedSegments, rows: np.ndarray) -> list[np.ndarray]:
    """Return rows by segment, the shortest segment first: rows of one item, or with equal references."""
    items: dict[str, list[int]] = {}
    for row in rows.tolist():
        key = rated.item[row] if rated.item else str(rated.references[row])
        items.setdefault(key, []).append(row)
    return [np.array(own) for own in sorted(items.values(), key=lambda own: len(rated.predictions[own[0]].encode()))]


def _some(references: str | Sequence[str], draw: np.random.Generator) -> list[str]:
    texts = [references] if isinstance(references, str) else list(dict.fromkeys(references))
    return [texts[k] for k in sorted(draw.permutation(len(texts))[:REFERENCES].tolist())]


def ranking_loss(line: Tensor, ratings: Tensor, items: Tensor, kind: Ranking) -> Tensor:
    """Return the mean loss of pairs of one segment whose ratings differ; 0 without such a pair."""
    first, second = torch.triu_indices(len(items), len(items), 1)
    rating_gaps = ratings[first] - ratings[second]
    compared = (items[first] == items[second]) & (rating_gaps.abs() > RESOLUTION)
    if kind == "none" or not compared.any():
        return line.new_zeros(())
    difference, rating_gaps = (line[first] - line[second])[compared], rating_gaps[compared]
    if kind == "margin":
        return functional.mse_loss(difference, rating_gaps)
    return functional.softplus(-difference * rating_gaps.sign()).mean()


class Judge(nn.Module):
    """A metric whose weights are trained, and a line from similarities to z-scores for every group.

    With `of_sources`, the metric against the source, a similarity is ``(1 - w) sim(prediction, reference) + w
    sim(prediction, source)``, with w the `source_weight`; of a set without sources it is the first alone.
    """

    def __init__(
        self, metric: TrainedMetric, groups: int, of_sources: TrainedMetric | None = None, source_weight: float = 0.0
    ) -> None:
        """Store a metric; lines begin as ``10 (similarity - 0.75)``."""
        super().__init__()
        self.metric, self.of_sources, self.source_weight = metric, of_sources, source_weight
        self.slopes = nn.Parameter(torch.full((groups,), 10.0).log())
        self.offsets = nn.Parameter(torch.full((groups,), 7.5))

    def similarities(self, segments: Segments) -> Tensor:
        """Return the similarities of segments; shape (segments,)."""
        own = self.metric.similarities(segments)
        if self.of_sources is None or segments.sources is None:
            return own
        compared = segments._replace(references=[[source] for source in segments.sources])
        return torch.lerp(own, self.of_sources.similarities(compared), self.source_weight)

    def loss(self, batch: Drawn, plan: Plan) -> Tensor:
        """Return the loss of a batch."""
        similarities, ratings = self.similarities(batch.segments), batch.ratings
        line = self.slopes[batch.group].exp() * similarities - self.offsets[batch.group]
        deviations = similarities - similarities.mean(), ratings - ratings.mean()
        r = functional.cosine_similarity(*deviations, dim=0)  # 0 if either is constant
        ranking = ranking_loss(line, ratings, batch.items, plan.ranking)
        return MSE_SHARE * functional.mse_loss(line, ratings) - r + plan.ranking_weight * ranking


def speed_up(wrapped: nn.Module, dropout: float) -> None:
    """Let PEFT's layers take bfloat16 without casts and skip dropout of 0, which saves a third of the time."""
    for module in wrapped.modules():
        if isinstance(module, LoraLayer):
            module.cast_input_dtype_enabled = False
            module.lora_dropout["default"] = nn.Dropout(dropout) if dropout else nn.Identity()


def start_from(wrapped: nn.Module, folder: Path) -> None:
    """Copy an adapter's weight changes into the factors of another of the same rank, in float32."""
    settings = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    tensors, weights = load_file(folder / WEIGHTS), dict(wrapped.named_parameters())
    own: Any = wrapped
    scaling = own.peft_config["default"].lora_alpha / own.peft_config["default"].r
    copied = 0
    for name, tensor in tensors.items():
        weight = weights.get(name.replace(".weight", ".default.weight"))
        if weight is None:
            continue  # of a layer that is not read
        if weight.shape != tensor.shape:
            raise SpecError(
                f"{folder} has a different rank: {tuple(tensor.shape)}, not {tuple(weight.shape)} in {name}."
            )
        module = name.removeprefix("base_model.model.").partition(".lora_")[0]
        alpha = settings["alpha_pattern"].get(module, settings["lora_alpha"])
        with torch.no_grad():
            weight.copy_(tensor.float() * (alpha / settings["r"] / scaling) ** 0.5)
        copied += 1
    if not copied:
        raise SpecError(f"{folder} changes no weight that is read.")


def learn(sets: Sequence[Weighted], plan: Plan, output: Path, *, name: str, options: RunOptions) -> Iterator[int]:
    """Train a metric on sets, and save its adapter; yield the completed steps.

    Every `plan.every` steps a checkpoint is written to `output`. If the folder has a checkpoint of the same plan and
    sets, the run resumes.
    """
    batches = Batches(sets, plan.batch, plan.seed)
    backend, wrapped, judge = make_judge(plan, len(batches), options)
    weights = {key: weight for key, weight in judge.named_parameters() if weight.requires_grad}
    optimizer = torch.optim.AdamW(
        [{"params": [weight for key, weight in weights.items() if (key in LINES) is line]} for line in (False, True)],
        weight_decay=0.0,
    )
    data = [TrainingData(one.name, one.rated) for one in sets]
    settings = plan.describe() + json.dumps([(one.label, own.weight) for one, own in zip(data, sets, strict=True)])
    done, seconds = _read_checkpoint(output / CHECKPOINT, settings, weights, optimizer)
    if done:
        yield done
    wrapped.train()
    warm_up = max(1, int(WARM_UP * plan.steps))
    since, losses = time.monotonic(), list[float]()
    for step in range(done, plan.steps):
        torch.manual_seed(plan.seed * 1_000_003 + step)  # for dropout, as in an uninterrupted run
        loss = judge.loss(batches.draw(step), plan)
        share = min((step + 1) / warm_up, (plan.steps - step) / max(1, plan.steps - warm_up))
        for group, rate in zip(optimizer.param_groups, (plan.rate, LINE_RATE), strict=True):
            group["lr"] = rate * share
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(weights.values(), CLIP)
        optimizer.step()
        losses.append(float(loss.detach()))
        if (step + 1) % plan.every == 0 or step + 1 == plan.steps:
            now = time.monotonic()
            seconds, since = seconds + now - since, now
            state = {"settings": settings, "step": str(step + 1), "seconds": f"{seconds:.1f}"}
            _write_checkpoint(output / CHECKPOINT, weights, optimizer, state)
            with (output / LOG).open("a", encoding="utf-8") as log:
                log.write(json.dumps({"step": step + 1, "loss": float(np.mean(losses)), "seconds": seconds}) + "\n")
            losses.clear()
        yield 1
    save_adapter(wrapped, backend.files.name, output)
    spec = plan.spec.replace(adapter=str(output.resolve()), layer=backend.spec.layer)
    made = ", ".join(f"{one.label} with weight {own.weight:g}" for one, own in zip(data, sets, strict=True))
    about = f"Trained by python -m experiments learn on {made}: {plan.describe()}, {seconds / 60:.1f} minutes."
    save_documents(Scorer(spec, options), backend.files, output, "finetuned", name=name, provenance=about, lora=True)
    write_hashes(hashes_of(data), output / TRAINING_DATA)
    shutil.rmtree((output / CHECKPOINT).parent)


def make_judge(plan: Plan, groups: int, options: RunOptions) -> tuple[TokenAlignmentBackend, Any, Judge]:
    """Load the model and add an adapter; return the network with the adapter, and the trained module."""
    torch.manual_seed(plan.seed)
    (_, spec), *others = split_mean(plan.spec) or ((1.0, plan.spec),)
    backend = TokenAlignmentBackend(spec, options)
    encoder = Encoder(backend.files, None, "float32", torch.device("cpu"), trainable=True)
    set_dropout(encoder.network, plan.dropout)
    frozen = lora_modules(encoder, plan.frozen) if plan.frozen else []
    wrapped = add_lora(encoder.network, plan.rank, lora_modules(encoder, max(backend.spec.layers)))
    speed_up(wrapped, plan.dropout)
    for key in frozen:
        wrapped.base_model.model.get_submodule(key).requires_grad_(requires_grad=False)
    if plan.start:
        start_from(wrapped, find_adapter(plan.start).folder)
    recipe = Recipe(rank=plan.rank, batch=plan.batch, loss="pearson", bf16=True, dropout=plan.dropout)
    metric = TrainedMetric(encoder, backend.spec, backend.view, recipe)
    if not others:
        judge = Judge(metric, groups)
    else:
        (weight, against_source) = others[0]
        view = TokenAlignmentBackend(against_source, options)
        once = replace(recipe, bf16=False)  # the first metric has wrapped the network
        judge = Judge(metric, groups, TrainedMetric(encoder, view.spec, view.view, once), weight)
    for name, parameter in judge.named_parameters():
        if name.endswith(("log_scale", "offset")):
            parameter.requires_grad = False  # every group has its own line
    return backend, wrapped, judge


def _write_checkpoint(path: Path, weights: Mapping[str, Tensor], optimizer: Any, metadata: Mapping[str, str]) -> None:
    """Write weights and the optimizer's state, with the settings of the run."""
    tensors = {f"weight {key}": weight.detach().contiguous() for key, weight in weights.items()}
    for key, weight in weights.items():
        state = optimizer.state[weight]
        tensors |= {f"{mean} {key}": state[mean].contiguous() for mean in ("exp_avg", "exp_avg_sq") if mean in state}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, save(tensors, metadata=dict(metadata)))


def _read_checkpoint(path: Path, settings: str, weights: Mapping[str, Tensor], optimizer: Any) -> tuple[int, float]:
    """Load a checkpoint into weights and optimizer; return the completed steps and their time."""
    if not path.is_file():
        return 0, 0.0
    with safe_open(path, framework="pt") as file:
        known = file.metadata()
        if known["settings"] != settings:
            raise SpecError(f"{path.parent} contains a run of other settings or data: give a new folder.")
        step = int(known["step"])
        for key, weight in weights.items():
            with torch.no_grad():
                weight.copy_(file.get_tensor(f"weight {key}"))
            if f"exp_avg {key}" in file.keys():  # noqa: SIM118 (no mapping)
                optimizer.state[weight] = {"step": torch.tensor(float(step))} | {
                    mean: file.get_tensor(f"{mean} {key}") for mean in ("exp_avg", "exp_avg_sq")
                }
    return step, float(known["seconds"])
