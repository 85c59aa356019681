"""Fine-tune a metric on human ratings, through the stages that score (TWMD paper, 6.2)."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from twmd_registry.encode.encoder import Encoder
from twmd_registry.engine.pairs import Segments
from twmd_registry.engine.scorer import Scorer
from twmd_registry.engine.token_backend import TokenAlignmentBackend
from twmd_registry.errors import FileError, InputError, SpecError
from twmd_registry.judgments.rated import select
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.metaeval.overlap import TRAINING_DATA, read_hashes, write_hashes
from twmd_registry.models.files import find_model
from twmd_registry.models.vectors import is_static
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.paths import write_atomically
from twmd_registry.train import data, trained_files
from twmd_registry.train.data import Example, TrainingData
from twmd_registry.train.model import TrainedMetric, add_lora, lora_modules, require_training, set_dropout, unfreeze
from twmd_registry.train.recipe import MSE_SHARE, Recipe, check_trainable
from twmd_registry.version import __version__

CHECKPOINTS, LOG, SETTINGS = "checkpoints", "log.jsonl", "settings.json"
START_ROWS = 256
"""Segments to which the line is fitted before training, and on which the error is measured afterwards."""
_MSE = "the mean squared error between `a * score + b` and the rating, standardised within each data set"
_PEARSON = "the Pearson correlation of scores and ratings within the batch, which has one group"
LOSSES = {"mse": _MSE, "pearson": f"{MSE_SHARE} times {_MSE}, minus {_PEARSON}"}


class FinetunePlan(NamedTuple):
    """A requested metric, its recipe, and data: for training, for choosing the epoch, and held out from both."""

    spec: MetricSpec
    train: tuple[TrainingData, ...]
    dev: tuple[TrainingData, ...] = ()
    holdout: tuple[TrainingData, ...] = ()
    recipe: Recipe = Recipe()

    def check(self, *, any_language: bool = False) -> None:
        """Refuse a metric or data that cannot be trained; with `any_language`, only warn about unread scripts."""
        check_trainable(self.spec, self.recipe)
        if not self.train:
            raise SpecError("nothing to train on: pass at least one rated data set.")
        for source in (*self.train, *self.dev):
            data.check_readable(source, self.spec, any_language=any_language)
            data.rating_scale(source)
        train, dev, holdout = (
            [data.with_sources(source, self.spec) for source in sources]
            for sources in (self.train, self.dev, self.holdout)
        )
        data.check_held_out([*train, *dev], holdout)
        data.warn_about_overlap(train, dev)
        data.make_batches(data.make_examples(train), self.recipe)
        if dev:
            _agreement(lambda segments: np.arange(len(segments.predictions), dtype=float), self.dev, self.spec)

    @property
    def settings(self) -> str:
        """Everything that determines the weights, as JSON; only a run with equal settings can be resumed."""
        labels = {name: [source.label for source in getattr(self, name)] for name in ("train", "dev")}
        settings = {"metric": self.spec.metric, **self.spec.values(), **labels, **dataclasses.asdict(self.recipe)}
        return json.dumps(settings, indent=1)


Agreements = list[dict[str, float]]
"""Correlations with dev by name, with the ``epoch`` of the untrained (0) and the saved weights; empty without dev."""


class Finetuned(NamedTuple):
    """A trained metric, the steps that it took, and how well it fits.

    Attributes:
        loss: Mean squared error on up to `START_ROWS` training segments, without dropout, in squared standard
            deviations of the ratings.
        agreements: Agreement with dev, before and after.
    """

    scorer: Scorer
    steps: int
    loss: float
    agreements: Agreements


def finetune(
    plan: FinetunePlan,
    output: Path,
    *,
    options: RunOptions = RunOptions(),  # noqa: B008 (frozen)
    name: str = "finetuned",
    resume: bool = False,
) -> Finetuned:
    """Train a metric's encoder so that its scores agree with ratings, and save the trained metric.

    The adapter (or model), the preset `name`, model card, signature, log and hashes of the training data are written to
    the output folder, and checkpoints during training. With `resume`, an interrupted run of the same plan continues
    from its last complete checkpoint.
    """
    plan.check(any_language=options.any_language)
    require_training()
    if is_static(files := find_model(str(plan.spec.model), plan.spec.revision)):
        raise SpecError(f"{files.name} is a table of word vectors: it has no encoder to train.")
    check_output(output, resume=resume)
    folder, recipe, settings = output / CHECKPOINTS, plan.recipe, plan.settings
    if (folder / SETTINGS).is_file():
        old, new = (json.loads(text) for text in ((folder / SETTINGS).read_text(encoding="utf-8"), settings))
        changed = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
        if differences := "; ".join(f"{key} was {old.get(key)!r}, is {new.get(key)!r}" for key in changed):
            raise SpecError(f"{folder} contains an interrupted run of another plan: {differences}.")
    examples = data.make_examples([data.with_sources(source, plan.spec) for source in plan.train])
    batches = data.make_batches(examples, recipe)
    from twmd_registry.train.trainer import training_arguments

    arguments = training_arguments(recipe, folder, len(batches), evaluate=bool(plan.dev), device_option=options.device)
    backend = TokenAlignmentBackend(plan.spec, options)
    model, wrapped = _make_model(backend, recipe, torch.device(arguments.device), options)
    model.start_line(*_similarities(model, examples, recipe))
    agreements = [{"epoch": 0} | _agreement(model.score, plan.dev, plan.spec)] if plan.dev else Agreements()
    with trained_files.writing(folder):
        write_atomically(folder / SETTINGS, settings.encode())
    with trained_files.writing(output, " Checkpoints are kept: free some space, and continue with --resume."):
        steps, log = _train(model, plan, examples, batches, arguments, resume=resume)
        loss = model.error(*_similarities(model, examples, recipe))
        write_atomically(output / LOG, "".join(json.dumps(line) + "\n" for line in log).encode())
        if plan.dev:
            line = max((line for line in log if "eval_pearson" in line), key=lambda line: line["eval_pearson"])
            agreements.append({name: line[name if name == "epoch" else f"eval_{name}"] for name in agreements[0]})
        scorer = Scorer(_save_metric(plan, backend, wrapped, output), options)
        minutes = sum(line.get("seconds", 0.0) for line in log) / 60
        made: dict[str, Any] = {"dev": _describe_dev(plan, agreements), "steps": steps, "minutes": f"{minutes:.1f}"}
        _save_documents(plan, scorer, backend, output, name=name, **made)
        shutil.rmtree(folder)
    return Finetuned(scorer, steps, loss, agreements)


def check_output(output: Path, *, resume: bool) -> None:
    """Refuse a folder with nothing to resume, or with anything but the run to resume."""
    folder = output / CHECKPOINTS
    interrupted = (folder / SETTINGS).is_file()
    if resume and not interrupted:
        raise SpecError(f"{folder} contains no interrupted run: nothing to resume.")
    if interrupted and not resume:
        raise SpecError(f"{folder} contains an interrupted run: continue it with --resume, or remove the folder.")
    if not resume and output.is_dir() and any(output.iterdir()):
        raise FileError(f"{output} is not empty: choose a new folder, so nothing is overwritten.")


def _make_model(
    backend: TokenAlignmentBackend, recipe: Recipe, device: torch.device, options: RunOptions
) -> tuple[TrainedMetric, Any]:
    """Load a separate encoder with trainable weights; return the metric, and the network to save."""
    from transformers import set_seed

    spec, view, layer = backend.spec, backend.view, max(backend.spec.layers)
    set_seed(recipe.seed)
    encoder = Encoder(backend.files, backend.adapter, "float32", device, trainable=True)
    if recipe.dropout is not None:
        set_dropout(encoder.network, recipe.dropout)
    wrapped = encoder.network
    if recipe.full:
        unfreeze(encoder, layer)
    else:
        wrapped = add_lora(wrapped, recipe.rank, lora_modules(encoder, layer))
    backend.close()
    return TrainedMetric(encoder, spec, view, recipe, batch_tokens=options.batch_tokens), wrapped


def _similarities(model: TrainedMetric, examples: Sequence[Example], recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """Return similarities and standardised ratings of a fixed sample of segments; shape (segments,) each."""
    sample = [examples[i] for i in np.random.default_rng(recipe.seed).permutation(len(examples))[:START_ROWS].tolist()]
    model.eval()
    similarities = []
    with torch.inference_mode():
        for start in range(0, len(sample), recipe.batch):
            predictions, references, _, _ = zip(*sample[start : start + recipe.batch], strict=True)
            similarities.append(model.similarities(Segments(list(predictions), list(references))))
    return torch.cat(similarities).to("cpu", torch.float64).numpy(), np.array([target for _, _, target, _ in sample])


def _train(
    model: TrainedMetric,
    plan: FinetunePlan,
    examples: list[Example],
    batches: data.Batches,
    arguments: Any,
    *,
    resume: bool,
) -> tuple[int, list[dict[str, float]]]:
    """Train, and load the weights that agree best with dev; return the steps and the log."""
    from twmd_registry.train.trainer import MetricTrainer, last_checkpoint

    trainer = MetricTrainer(
        model,
        batches,
        lambda: _agreement(model.score, plan.dev, plan.spec),
        args=arguments,
        train_dataset=examples,
        eval_dataset=examples[:1] if plan.dev else None,  # required by Trainer; `_agreement` has its own data
    )
    checkpoint = last_checkpoint(Path(arguments.output_dir)) if resume else None
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    return int(trainer.state.global_step), trainer.state.log_history


def _agreement(score: Callable[[Segments], Any], dev: Sequence[TrainingData], spec: MetricSpec) -> dict[str, float]:
    """Score and correlate every group separately; return means over the groups of all data sets."""
    values_by_statistic: dict[str, list[float]] = {"pearson": [], "kendall": []}
    for source in dev:
        groups = np.asarray(source.rated.group)
        for name in np.unique(groups).tolist():
            part = source._replace(rated=select(source.rated, np.flatnonzero(groups == name)))
            scores = score(data.segments_of(data.with_sources(part, spec)))
            try:
                for statistic, values in values_by_statistic.items():
                    values.append(correlate(statistic, scores, part.rated.ratings))
            except InputError as error:
                raise InputError(f"{source.name}, group {name}: {error}") from error
    return {statistic: float(np.mean(values)) for statistic, values in values_by_statistic.items()}


def _save_metric(plan: FinetunePlan, backend: TokenAlignmentBackend, wrapped: Any, output: Path) -> MetricSpec:
    """Write weights and mean vectors; return the trained metric's specification."""
    folder, spec = str(output.resolve()), plan.spec.replace(layer=backend.spec.layer)
    if plan.recipe.full:
        trained_files.save_network(wrapped, backend.files, output)
        spec = spec.replace(model=folder, fingerprint=None, revision=None, adapter=None)
    else:
        trained_files.save_adapter(wrapped, backend.files.name, output)
        spec = spec.replace(adapter=folder)
    return trained_files.save_means(spec, next(iter(backend.backgrounds), None), output)


def _save_documents(
    plan: FinetunePlan, scorer: Scorer, backend: TokenAlignmentBackend, output: Path, *, name: str, dev: str, **run: Any
) -> None:
    """Write preset, model card, signature, and hashes of all training data, earlier ones included."""
    files, recipe = backend.files, plan.recipe
    applied = {"weights": "full" if recipe.full else "lora", **dataclasses.asdict(recipe)}
    applied |= {"learning_rate": recipe.rate, **run}
    unused = {"full", "save_steps", *(["rank"] if recipe.full else [])}
    written = ", ".join(f"{key} {value}" for key, value in applied.items() if key not in unused and value is not None)
    scales = [(source.label, *data.rating_scale(source)) for source in plan.train]
    train = ", ".join(
        f"{label} with ratings of mean {mean:.6g} and standard deviation {sd:.6g}" for label, mean, sd in scales
    )
    origin = f"Fine-tuned by twmd-registry {__version__} from {files.name}@{files.fingerprint} on {train}"
    holdout = "No data were held out."
    if plan.holdout:
        names = ", ".join(source.label for source in plan.holdout)
        compared = "source" if plan.spec.against else "reference"
        holdout = f"None of these segments has a {compared} in common with the held-out data: {names}."
    provenance = " ".join([f"{origin}: {LOSSES[recipe.loss]} ({written}).", dev, holdout])
    trained_files.save_documents(
        scorer, files, output, "finetuned", name=name, provenance=provenance, lora=not recipe.full
    )
    hashes = data.hashes_of([*plan.train, *plan.dev])
    for folder in (files.folder, *([backend.adapter.folder] if backend.adapter else [])):
        hashes = read_hashes(folder / TRAINING_DATA) | hashes
    write_hashes(hashes, output / TRAINING_DATA)


def _describe_dev(plan: FinetunePlan, agreements: Agreements) -> str:
    """Describe in a sentence how the epoch was chosen."""
    if not agreements:
        return "There was no development data: the weights are the last epoch's."
    names, chosen = ", ".join(source.label for source in plan.dev), agreements[1]["epoch"]
    before, best = (f"{dev['pearson']:.4f} (Kendall's tau {dev['kendall']:.4f})" for dev in agreements)
    by = f"the mean Pearson correlation over the groups of {names}"
    return f"The epoch ({chosen:g}) was chosen by {by}: {best}; untrained, it was {before}."
