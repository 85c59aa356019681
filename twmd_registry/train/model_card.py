"""The model cards of trained metrics, and where these metrics come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import EMBEDDED_MODEL, MetricName
from twmd_registry.registry.paths import write_atomically
from twmd_registry.train.data import RatingScale
from twmd_registry.train.development import DevelopmentAgreement
from twmd_registry.train.recipe import MSE_SHARE, Loss, Recipe, Weights
from twmd_registry.version import __version__

SHOWN = ("rank", "num_train_epochs", "learning_rate", "per_device_train_batch_size", "warmup_steps", "seed")
_MSE = "the mean squared error between `a * score + b` and the rating, standardised within each data set"
_PEARSON = "the Pearson correlation of scores and ratings within the batch, which holds one group"
LOSSES = {Loss.MSE: _MSE, Loss.PEARSON: f"{MSE_SHARE} times {_MSE}, less {_PEARSON}"}


class TrainingResult(NamedTuple):
    """The result of training on STS-B.

    Attributes:
        pearson: Pearson correlation on the development set.
        train: Pairs of the training set.
        dev: Pairs of the development set.
        signature: Of the metric with the new adapter.
    """

    pearson: float
    train: int
    dev: int
    signature: str


class TrainedMetricFacts(NamedTuple):
    """What the card and the preset of a fine-tuned metric state.

    Attributes:
        metric: The metric.
        base: The model that training began with: name and content.
        signature: Of the trained metric.
        keys: Keys to set for it.
        train: The training data and their ratings' scale.
        dev: Labels of the development data.
        holdout: Labels of the held-out data.
        before: Agreement on dev before training; None without dev.
        best: Agreement on dev of the saved weights; None without dev.
        recipe: The settings of training.
        steps: Training steps.
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


def write_card(trained: TrainingResult, settings: Mapping[str, object], folder: Path) -> None:
    """Write ``README.md`` and ``signature.txt`` of an adapter trained on STS-B."""
    shown = {name: settings[name] for name in SHOWN}
    _write(folder, "stsscore", EMBEDDED_MODEL, settings=shown, **trained._asdict())


def provenance(facts: TrainedMetricFacts) -> str:
    """Return where a fine-tuned metric comes from, in a few sentences."""
    train = ", ".join(
        f"{one.label} with ratings of mean {one.mean:.6g} and standard deviation {one.sd:.6g}" for one in facts.train
    )
    settings = ", ".join(f"{name} {value}" for name, value in _settings(facts).items())
    start = f"Fine-tuned by twmd-registry {__version__} from {facts.base} on {train}: {LOSSES[facts.recipe.loss]}"
    return f"{start} ({settings}). {_describe_dev(facts)} {_describe_holdout(facts)}"


def write_metric_card(facts: TrainedMetricFacts, folder: Path) -> None:
    """Write ``README.md`` and ``signature.txt`` of a fine-tuned metric, without any path of this machine."""
    values = {
        "lora": facts.recipe.weights is Weights.LORA,
        "loss": LOSSES[facts.recipe.loss],
        "dev": _describe_dev(facts),
        "holdout": _describe_holdout(facts),
        "settings": _settings(facts),
    }
    _write(folder, "finetuned", **facts._asdict() | values)


def write_average_card(
    folder: Path,
    *,
    metric: MetricName,
    base: str,
    signature: str,
    keys: Mapping[str, str],
    members: Sequence[tuple[str, str]],
    rank: int,
) -> None:
    """Write ``README.md`` and ``signature.txt`` of a mean of adapters, without any path of this machine.

    Args:
        folder: Of the adapter.
        metric: The metric.
        base: The model of the adapters: name and content.
        signature: Of the metric with the mean.
        keys: Keys to set for it.
        members: Name and provenance of every adapter.
        rank: Of the mean.
    """
    values = {"metric": metric, "keys": keys, "members": members, "rank": rank}
    _write(folder, "average", base, signature=signature, **values)


def _settings(facts: TrainedMetricFacts) -> dict[str, object]:
    """Return the recipe as it was applied."""
    own = dataclasses.asdict(facts.recipe) | {"learning_rate": facts.recipe.rate, "steps": facts.steps}
    unused = {"save_steps"} | ({"rank"} if facts.recipe.weights is Weights.FULL else set())
    return {name: value for name, value in own.items() if name not in unused and value is not None}


def _describe_dev(facts: TrainedMetricFacts) -> str:
    if facts.before is None or facts.best is None:
        return "There was no development data: the weights are those of the last epoch."
    before, best = facts.before, facts.best
    return (
        f"The epoch ({best.epoch:g}) was chosen by the mean Pearson correlation over the groups of "
        f"{', '.join(facts.dev)}: {best.pearson:.4f} (Kendall's tau {best.kendall:.4f}); untrained it was "
        f"{before.pearson:.4f} ({before.kendall:.4f})."
    )


def _describe_holdout(facts: TrainedMetricFacts) -> str:
    if not facts.holdout:
        return "No data were named as held out."
    return f"None of these segments has a reference in common with the held-out data: {', '.join(facts.holdout)}."


def _write(folder: Path, template: str, base: str, *, signature: str, **values: Any) -> None:
    """Render a template of ``train/templates`` and write it beside the signature."""
    from huggingface_hub import ModelCard, ModelCardData

    library = "transformers" if values.get("lora") is False else "peft"
    data = ModelCardData(base_model=base.partition("@")[0], library_name=library, pipeline_tag="sentence-similarity")
    if isinstance(keys := values.get("keys"), Mapping):
        written = " ".join(f"{name}={value}" for name, value in keys.items())
        values |= {"title": CATALOGUE[MetricName(str(values["metric"]))].title}
        values |= {"keys": written.replace(str(folder.resolve()), "FOLDER")}
    text = resources.files("twmd_registry").joinpath(f"train/templates/{template}.md").read_text(encoding="utf-8")
    card = ModelCard.from_template(
        data, template_str=text, base=base, signature=signature, version=__version__, **values
    )
    write_atomically(folder / "README.md", f"{str(card).rstrip()}\n".encode())
    write_atomically(folder / "signature.txt", f"{signature}\n".encode())
