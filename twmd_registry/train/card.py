"""The cards of what was trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import EMBEDDED_MODEL, MetricName
from twmd_registry.registry.paths import write_whole
from twmd_registry.train.agreement import DevelopmentAgreement
from twmd_registry.train.data import RatingScale
from twmd_registry.train.recipe import MSE_SHARE, Loss, Recipe, Weights
from twmd_registry.version import __version__

CARD = """\
---
base_model: {base}
library_name: peft
pipeline_tag: sentence-similarity
---

# STSScore on {base}

A LoRA adapter and a line on the cosine of two texts' mean vectors, which predict how similar two sentences are, from 0 to 5. It is
made for `stsscore` of twmd-registry {version}:

    twmd score ref.txt -i out.txt -m stsscore --set adapter=FOLDER scale=5

Signature: `{signature}`

Trained by `twmd train stsb` on {train} pairs of the STS benchmark's training set; the epoch was chosen on its development set ({dev} pairs),
where the Pearson correlation is {pearson:.4f}. The test set was not looked at.

| setting | value |
| --- | --- |
{settings}

What it knows is how people rated sentences of news, image captions and forums, in English.
"""
SHOWN = ("rank", "num_train_epochs", "learning_rate", "per_device_train_batch_size", "warmup_steps", "seed")


class TrainingResult(NamedTuple):
    """What training reached.

    Attributes:
        pearson: On the development set.
        train: Pairs of the training set.
        dev: Pairs of the development set.
        signature: Of the metric with the new adapter.
    """

    pearson: float
    train: int
    dev: int
    signature: str


def write_card(trained: TrainingResult, settings: Mapping[str, object], folder: Path) -> None:
    """Write ``README.md`` and ``signature.txt`` beside an adapter."""
    rows = "\n".join(f"| {name} | {settings[name]} |" for name in SHOWN)
    _write(
        folder,
        CARD.format(base=EMBEDDED_MODEL, version=__version__, settings=rows, **trained._asdict()),
        trained.signature,
    )


def _write(folder: Path, text: str, signature: str) -> None:
    write_whole(folder / "README.md", text.encode())
    write_whole(folder / "signature.txt", f"{signature}\n".encode())


METRIC_CARD = """\
---
{front}
pipeline_tag: sentence-similarity
---

# {title} fine-tuned on human ratings

{what} It is made for `{metric}` of twmd-registry {version}:

    twmd score ref.txt -i out.txt -m {metric} --set {keys}

Signature: `{signature}`

Trained by `twmd finetune {metric}` from {base}. The loss is {loss}; a and b were learned with the weights
and are not part of the metric.

| trained on | mean rating | standard deviation |
| --- | --- | --- |
{train}

{dev}

{holdout}

| setting | value |
| --- | --- |
{settings}
"""


_MSE = "the mean squared error between `a * score + b` and the rating, standardised within each data set"
LOSSES = {
    Loss.MSE: _MSE,
    Loss.PEARSON: f"{MSE_SHARE} times {_MSE}, less the Pearson correlation of scores and ratings within the batch, which holds one group",
}


class TrainedMetricFacts(NamedTuple):
    """What a card and a preset say of a trained metric.

    Attributes:
        metric: Which metric.
        base: The model it was trained from: name and content.
        signature: Of the trained metric.
        keys: What to set for it.
        train: The training data and their ratings' scale.
        dev: The development data, as labels.
        holdout: The data that were held out, likewise.
        before: On dev, untrained; None without dev.
        best: On dev, of the weights that were kept; likewise.
        recipe: How it was trained.
        steps: Steps that were made.
    """

    metric: MetricName
    base: str
    signature: str
    keys: Mapping[str, str]
    train: Sequence[RatingScale]
    dev: Sequence[str]
    holdout: Sequence[str]
    before: DevelopmentAgreement | None
    best: DevelopmentAgreement | None
    recipe: Recipe
    steps: int

    @property
    def settings(self) -> dict[str, object]:
        """The recipe as it was applied."""
        own = dataclasses.asdict(self.recipe) | {"learning_rate": self.recipe.rate, "steps": self.steps}
        unused = {"save_steps"} | ({"rank"} if self.recipe.weights is Weights.FULL else set())
        return {name: value for name, value in own.items() if name not in unused and value is not None}


def provenance(facts: TrainedMetricFacts) -> str:
    """Where a trained metric comes from, in a few sentences."""
    train = ", ".join(
        f"{one.label} with ratings of mean {one.mean:.6g} and standard deviation {one.sd:.6g}" for one in facts.train
    )
    settings = ", ".join(f"{name} {value}" for name, value in facts.settings.items())
    start = (
        f"Fine-tuned by twmd-registry {__version__} from {facts.base} on {train}: {LOSSES[facts.recipe.loss]} "
        f"({settings})."
    )
    return f"{start} {_about_dev(facts)} {_about_holdout(facts)}"


def _about_dev(facts: TrainedMetricFacts) -> str:
    if facts.before is None or facts.best is None:
        return "There was no development data: the weights are those of the last epoch."
    before, best = facts.before, facts.best
    return (
        f"The epoch ({best.epoch:g}) was chosen by the mean Pearson correlation over the groups of "
        f"{', '.join(facts.dev)}: {best.pearson:.4f} "
        f"(Kendall's tau {best.kendall:.4f}); untrained it was {before.pearson:.4f} ({before.kendall:.4f})."
    )


def _about_holdout(facts: TrainedMetricFacts) -> str:
    if not facts.holdout:
        return "No data were named as held out."
    return f"None of these segments has a reference in common with the held-out data: {', '.join(facts.holdout)}."


def write_metric_card(facts: TrainedMetricFacts, folder: Path) -> None:
    """Write ``README.md`` and ``signature.txt`` of a fine-tuned metric; no path of this machine is in them."""
    lora = facts.recipe.weights is Weights.LORA
    text = METRIC_CARD.format(
        front=f"base_model: {facts.base.partition('@')[0]}\nlibrary_name: {'peft' if lora else 'transformers'}",
        title=CATALOGUE[facts.metric].title,
        what=f"A LoRA adapter of {facts.base}." if lora else "An encoder with its tokenizer.",
        keys=_as_arguments(facts.keys, folder),
        version=__version__,
        train="\n".join(f"| {one.label} | {one.mean:.6g} | {one.sd:.6g} |" for one in facts.train),
        dev=_about_dev(facts),
        holdout=_about_holdout(facts),
        settings="\n".join(f"| {name} | {value} |" for name, value in facts.settings.items()),
        loss=LOSSES[facts.recipe.loss],
        metric=facts.metric,
        signature=facts.signature,
        base=facts.base,
    )
    _write(folder, text, facts.signature)


AVERAGE_CARD = """\
---
base_model: {base_name}
library_name: peft
pipeline_tag: sentence-similarity
---

# {title} fine-tuned on human ratings, averaged

A LoRA adapter of {base}, of rank {rank}: the mean of {number} adapters' weights. It is made for `{metric}` of twmd-registry {version}:

    twmd score ref.txt -i out.txt -m {metric} --set {keys}

Signature: `{signature}`

Averaged by `twmd average`, with equal weights, from:

{members}
"""


class AverageFacts(NamedTuple):
    """What a card and a preset say of a mean of adapters.

    Attributes:
        metric: Which metric.
        base: The model they were trained from: name and content.
        signature: Of the metric with the mean.
        keys: What to set for it.
        members: Of every adapter its name and content, and where it comes from.
        rank: Of the mean.
    """

    metric: MetricName
    base: str
    signature: str
    keys: dict[str, str]
    members: list[tuple[str, str]]
    rank: int

    @property
    def provenance(self) -> str:
        """Where the mean comes from, in a few sentences."""
        told = " ".join(f"{name}: {provenance}" for name, provenance in self.members)
        return f"The mean of the weights of {len(self.members)} adapters. {told}"


def write_average_card(facts: AverageFacts, folder: Path) -> None:
    """Write ``README.md`` and ``signature.txt`` of a mean of adapters; no path of this machine is in them."""
    text = AVERAGE_CARD.format(
        base_name=facts.base.partition("@")[0],
        title=CATALOGUE[facts.metric].title,
        base=facts.base,
        rank=facts.rank,
        number=len(facts.members),
        metric=facts.metric,
        version=__version__,
        keys=_as_arguments(facts.keys, folder),
        signature=facts.signature,
        members="\n".join(f"- `{name}`: {provenance}" for name, provenance in facts.members),
    )
    _write(folder, text, facts.signature)


def _as_arguments(keys: Mapping[str, str], folder: Path) -> str:
    return " ".join(f"{name}={value}" for name, value in keys.items()).replace(str(folder.resolve()), "FOLDER")
