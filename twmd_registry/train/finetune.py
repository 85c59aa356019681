"""Fine-tuning a metric on human ratings, through the stages that score (TWMD paper, 6.2)."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from twmd_registry.encode.encoder import Encoder
from twmd_registry.engine.backends import TokenAlignmentBackend
from twmd_registry.engine.pairs import Segments
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import InputError, SpecError, warn
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.metaeval.overlap import TRAINING_DATA, Hashes, read_hashes, write_hashes
from twmd_registry.models.files import ModelFiles
from twmd_registry.models.load import pick_device
from twmd_registry.registry.names import Centering, Dtype
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.own_presets import PRESET_FILE
from twmd_registry.registry.paths import write_atomically
from twmd_registry.registry.presets import Preset, write_presets
from twmd_registry.registry.spec import MetricSpec, keys_to_set
from twmd_registry.train.batches import Batches, batches_of
from twmd_registry.train.data import (
    TrainingData,
    TrainingExample,
    check_held_out,
    examples,
    hashes_of,
    scale_of,
    segments_of,
    warn_about_overlap,
)
from twmd_registry.train.development import DevelopmentAgreement
from twmd_registry.train.interrupted import check_folder, mark
from twmd_registry.train.mean_transfer import with_means
from twmd_registry.train.model import TrainedMetric
from twmd_registry.train.model_card import TrainedMetricFacts, provenance, write_metric_card
from twmd_registry.train.recipe import Recipe, Weights, check_trainable
from twmd_registry.train.weights import (
    add_lora,
    lora_modules,
    require_training,
    save_adapter,
    save_network,
    set_dropout,
    unfreeze,
)

CHECKPOINTS, LOG = "checkpoints", "log.jsonl"
START_ROWS = 256
"""Segments that the line's start is fitted to."""


class FinetunePlan(NamedTuple):
    """What is to be trained.

    Attributes:
        spec: The metric, as asked for.
        train: Data to learn from.
        dev: Data to choose the epoch by; none keeps the last.
        holdout: Data that must not be among the others.
        recipe: How.
    """

    spec: MetricSpec
    train: tuple[TrainingData, ...]
    dev: tuple[TrainingData, ...] = ()
    holdout: tuple[TrainingData, ...] = ()
    recipe: Recipe = Recipe()

    def check(self) -> None:
        """Refuse what cannot be trained, and data that cannot be trained on.

        Raises:
            SpecError: No training data, or as for `check_trainable`.
            InputError: As for `segments_of`, `scale_of` and `check_held_out`.
        """
        check_trainable(self.spec, self.recipe)
        if not self.train:
            raise SpecError("there is nothing to train on: name at least one rated data set.")
        for one in (*self.train, *self.dev):
            segments_of(one)
            scale_of(one)
        check_held_out([*self.train, *self.dev], self.holdout)
        warn_about_overlap(self.train, self.dev)

    @property
    def settings(self) -> str:
        """Everything that decides the weights, as JSON; a run is resumed with the same only."""
        data = {name: [one.label for one in getattr(self, name)] for name in ("train", "dev")}
        return json.dumps(
            {"metric": self.spec.metric, **self.spec.values(), **data, **dataclasses.asdict(self.recipe)}, indent=1
        )


class FinetuneResult(NamedTuple):
    """What training gave.

    Attributes:
        signature: Of the trained metric.
        keys: What to set for it, KEY to value.
        before: On dev, untrained; None without dev.
        best: On dev, of the weights that were kept; likewise.
        loss: Mean squared error of the trained metric on up to `START_ROWS` training segments, without dropout, in
            squared standard deviations of the ratings.
        steps: Steps that were made.
    """

    signature: str
    keys: dict[str, str]
    before: DevelopmentAgreement | None
    best: DevelopmentAgreement | None
    loss: float
    steps: int


class _Prepared(NamedTuple):
    """What is trained, and its untrained metric.

    Attributes:
        model: Whose weights change.
        encoder: The encoder in it.
        wrapped: Its network, or PEFT's wrapping of it.
        route: The untrained metric.
        arguments: Trainer's settings.
        rows: What it learns from.
        batches: Which of them make a step.
    """

    model: TrainedMetric
    encoder: Encoder
    wrapped: Any
    backend: TokenAlignmentBackend
    arguments: Any
    rows: list[TrainingExample]
    batches: Batches


class ComparedBatch(NamedTuple):
    """What is compared in training: similarities and standardised ratings; each of shape (segments,)."""

    similarities: np.ndarray
    targets: np.ndarray


class _TrainerResult(NamedTuple):
    """What Trainer says at the end."""

    best: DevelopmentAgreement | None
    loss: float
    steps: int
    log: list[dict[str, float]]


def finetune(
    plan: FinetunePlan,
    output: Path,
    *,
    options: RunOptions = RunOptions(),  # noqa: B008 (frozen)
    name: str = "finetuned",
    resume: bool = False,
) -> FinetuneResult:
    """Train a metric's encoder so that its scores agree with ratings, and write what is needed to score by it.

    Ratings are standardised within each training set. Dropout is on, as recipe or model says. After every epoch the
    metric is asked for its scores on dev, group by group, as `twmd_registry.engine.scorer.Scorer` would give them.

    Args:
        plan: What is trained, on what, how.
        output: Where it goes: the adapter (or the model), ``preset.toml``, ``README.md``, ``signature.txt``,
            ``log.jsonl``, hashes of the training data, and until it is done ``checkpoints/``.
        options: Where and how fast.
        name: Of the preset.
        resume: Go on from the last whole checkpoint of an interrupted run of the same plan.

    Returns:
        The trained metric's signature and what it reached.

    Raises:
        SpecError: A metric or setting that cannot be trained; nothing to resume, a plan that is not the interrupted
            one's, or an interrupted run that neither is resumed nor was removed.
        InputError: Data that cannot be trained on or chosen by, or that hold segments of the held-out data.
        ModelError: The model is not to be had, or gives numbers that are not finite.
        FileError: The folder cannot be written.
        MissingExtraError: `peft` or `accelerate` is not installed.
    """
    plan.check()
    require_training()
    folder = output / CHECKPOINTS
    check_folder(folder, plan.settings, resume=resume)
    run = _prepare(plan, folder, options)
    _warn_about_population(run, plan.recipe)
    before = _judge(run.model, plan.dev) if plan.dev else None
    mark(folder, plan.settings)
    result = _train(run, plan, resume=resume)
    write_atomically(output / LOG, "".join(json.dumps(line) + "\n" for line in result.log).encode())
    _save_weights(run, plan.recipe, output)
    made = _settle(run, plan, output, options)
    if before is not None and result.best is not None and result.best.pearson <= before.pearson:
        warn(
            f"on dev the trained metric is no better than the untrained one: Pearson {result.best.pearson:.4f}, "
            f"untrained {before.pearson:.4f}."
        )
    done = FinetuneResult(made.signature, keys_to_set(made.requested), before, result.best, result.loss, result.steps)
    _document(plan, done, made, run.backend.files, output, name=name)
    write_hashes(_start_hashes(run) | hashes_of([*plan.train, *plan.dev]), output / TRAINING_DATA)
    shutil.rmtree(folder)
    return done


def _warn_about_population(run: _Prepared, recipe: Recipe) -> None:
    """Say that a metric is trained under the mean of other neighbours than it is scored with."""
    spec = run.backend.spec
    if spec.centering_kind is Centering.CORPUS:
        warn(f"centering=corpus: in training the {recipe.batch} segments of a batch stand for the corpus.")
    if spec.centering_kind is Centering.BATCH and spec.centering_size != recipe.batch:
        warn(
            f"centering=batch: trained in batches of {recipe.batch}, and scored in batches of "
            f"{spec.centering_size} (centering_size)."
        )


def _prepare(plan: FinetunePlan, folder: Path, options: RunOptions) -> _Prepared:
    """Load an encoder of its own and make trainable what is to be trained."""
    from transformers import set_seed

    from twmd_registry.train.trainer import training_arguments

    rows = examples(plan.train, [scale_of(one) for one in plan.train])
    batches = batches_of(rows, plan.recipe)
    wanted = pick_device(options.device)
    arguments = training_arguments(
        plan.recipe, folder, len(batches), judged=bool(plan.dev), on_cpu=wanted.type == "cpu"
    )
    device = torch.device(arguments.device)
    if device.type != wanted.type or (wanted.index or 0) != (device.index or 0) or arguments.world_size > 1:
        raise SpecError(
            f"device={options.device}: training runs in one process on {device}; choose another by "
            "CUDA_VISIBLE_DEVICES."
        )
    backend = TokenAlignmentBackend(plan.spec, options)
    spec, job, reading = backend.spec, backend.job, backend.reading
    set_seed(plan.recipe.seed)
    encoder = Encoder(backend.files, backend.adapter, Dtype.FLOAT32, device)
    if encoder.static:
        raise SpecError(f"{backend.files.name} is a table of word vectors: there is no encoder to train.")
    if plan.recipe.dropout is not None:
        set_dropout(encoder.network, plan.recipe.dropout)
    wrapped = encoder.network
    if plan.recipe.weights is Weights.LORA:
        wrapped = add_lora(wrapped, plan.recipe.rank, lora_modules(encoder, max(spec.layers)))
    else:
        unfreeze(encoder, max(spec.layers))
    backend.close()
    model = TrainedMetric(encoder, job, reading, plan.recipe, batch_tokens=options.batch_tokens)
    _start(model, rows, plan.recipe)
    return _Prepared(model, encoder, wrapped, backend, arguments, rows, batches)


def _start(model: TrainedMetric, rows: Sequence[TrainingExample], recipe: Recipe) -> None:
    """Fit the line to what the untrained encoder makes of some of the segments."""
    model.start_line(*_compare(model, rows, recipe))


def _compare(model: TrainedMetric, rows: Sequence[TrainingExample], recipe: Recipe) -> ComparedBatch:
    """Similarities and standardised ratings of some of the segments, the same ones always, in batches like those of
    training.
    """
    chosen = np.random.default_rng(recipe.seed).permutation(len(rows))[:START_ROWS]
    drawn = [rows[i] for i in chosen.tolist()]
    model.eval()
    with torch.inference_mode():
        batches = [drawn[start : start + recipe.batch] for start in range(0, len(drawn), recipe.batch)]
        found = [
            model.similarities(Segments([row.prediction for row in one], [row.references for row in one]))
            for one in batches
        ]
    return ComparedBatch(torch.cat(found).to("cpu", torch.float64).numpy(), np.array([row.target for row in drawn]))


def _train(run: _Prepared, plan: FinetunePlan, *, resume: bool) -> _TrainerResult:
    """Train, and load the weights that agree best with dev."""
    from twmd_registry.train.trainer import MetricTrainer, last_checkpoint, load_best

    eval_dataset = run.rows[:1] if plan.dev else None  # Trainer asks for one; the judge has its own
    trainer = MetricTrainer(
        run.model,
        run.batches,
        lambda: _judge(run.model, plan.dev),
        args=run.arguments,
        train_dataset=run.rows,
        eval_dataset=eval_dataset,
    )
    found = last_checkpoint(Path(run.arguments.output_dir)) if resume else None
    trainer.train(resume_from_checkpoint=str(found) if found else None)
    best = load_best(run.model, trainer.kept) if plan.dev else None
    log = trainer.state.log_history
    return _TrainerResult(
        best, run.model.error(*_compare(run.model, run.rows, plan.recipe)), int(trainer.state.global_step), log
    )


def _judge(model: TrainedMetric, dev: Sequence[TrainingData]) -> DevelopmentAgreement:
    """Score every group by itself and correlate: plain means over the groups of all data sets."""
    pearson, kendall = list[float](), list[float]()
    for one in dev:
        groups, segments = np.asarray(one.rated.group), segments_of(one)
        for name in np.unique(groups).tolist():
            rows = np.flatnonzero(groups == name)
            scores = model.score(
                Segments([segments.predictions[i] for i in rows], [segments.references[i] for i in rows])
            )
            try:
                pearson.append(correlate("pearson", scores, one.rated.ratings[rows]))
                kendall.append(correlate("kendall", scores, one.rated.ratings[rows]))
            except InputError as error:
                raise InputError(f"{one.name}, group {name}: {error}") from error
    return DevelopmentAgreement(float(np.mean(pearson)), float(np.mean(kendall)))


def _save_weights(run: _Prepared, recipe: Recipe, output: Path) -> None:
    if recipe.weights is Weights.LORA:
        save_adapter(run.wrapped, run.backend.files.name, output)
    else:
        save_network(run.wrapped, run.backend.files, output)


def _settle(run: _Prepared, plan: FinetunePlan, output: Path, options: RunOptions) -> Scorer:
    """Return the scorer of the trained metric; what it needs beside the weights is written, too."""
    place, applied = str(output.resolve()), run.backend.spec
    spec = plan.spec.replace(layer=applied.layer)
    if plan.recipe.weights is Weights.LORA:
        spec = spec.replace(adapter=place)
    else:
        spec = spec.replace(model=place, fingerprint=None, revision=None, adapter=None)
    spec = with_means(spec, run.backend.background, output)
    return Scorer(spec, options)


def _start_hashes(run: _Prepared) -> Hashes:
    """Return what the weights that training began with were trained on."""
    folders = [run.backend.files.folder, *([run.backend.adapter.folder] if run.backend.adapter else [])]
    return {name: own for folder in folders for name, own in read_hashes(folder / TRAINING_DATA).items()}


def _document(
    plan: FinetunePlan, done: FinetuneResult, made: Scorer, files: ModelFiles, output: Path, *, name: str
) -> None:
    """Write preset, card and signature."""
    facts = TrainedMetricFacts(
        metric=plan.spec.metric,
        base=f"{files.name}@{files.fingerprint}",
        signature=done.signature,
        keys=done.keys | ({"model": files.name} if made.requested.adapter and "model" in done.keys else {}),
        train=[scale_of(one) for one in plan.train],
        dev=[one.label for one in plan.dev],
        holdout=[one.label for one in plan.holdout],
        before=done.before,
        best=done.best,
        recipe=plan.recipe,
        steps=done.steps,
    )
    about = provenance(facts)
    preset = Preset(name, plan.spec.metric, made.requested.values(), about, made.spec.fingerprint)
    write_atomically(output / PRESET_FILE, write_presets(name, about, [preset]).encode())
    write_metric_card(facts, output)
