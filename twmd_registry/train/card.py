"""The card of a trained adapter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from twmd_registry.registry.home import write_whole
from twmd_registry.registry.names import EMBEDDED_MODEL
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


class Trained(NamedTuple):
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


def write_card(trained: Trained, settings: Mapping[str, object], folder: Path) -> None:
    """Write ``README.md`` and ``signature.txt`` beside an adapter."""
    rows = "\n".join(f"| {name} | {settings[name]} |" for name in SHOWN)
    text = CARD.format(base=EMBEDDED_MODEL, version=__version__, settings=rows, **trained._asdict())
    write_whole(folder / "README.md", text.encode())
    write_whole(folder / "signature.txt", f"{trained.signature}\n".encode())
