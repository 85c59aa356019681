"""What bert_score has measured: the layer of its models, its model for a language, and what unrelated texts score."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

TABLE = Path(str(resources.files("twmd_registry"))) / "data" / "bert_score.json"
"""The figures, with their source and licence; ``python -m experiments.bert_score`` writes them."""

MOVED = frozenset({"FacebookAI", "albert", "distilbert", "google-bert", "google-t5", "xlnet"})
"""Accounts of the Hub to which it has moved models that had none."""


@cache
def figures() -> dict[str, Any]:
    """Return all figures."""
    read: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return read


def language_of(baseline: str | None) -> str | None:
    """Return the language of a baseline of this table, as the key ``baseline`` names it; None of any other baseline.

    >>> language_of("bert_score:en"), language_of("0123456789ab")
    ('en', None)
    """
    named = re.fullmatch(r"bert_score:([a-z-]+)", baseline or "")
    return named[1] if named else None


def model_of_language(language: str) -> str:
    """Return bert_score's default model for a language, as ``en`` or ``zh``.

    >>> model_of_language("en"), model_of_language("de")
    ('roberta-large', 'bert-base-multilingual-cased')
    """
    known = figures()
    return str(known["languages"].get(language.lower(), known["other_languages"]))


def layer_of_model(model: str) -> int | None:
    """Return the layer that bert_score reads of a model; None for a model that it does not know.

    >>> layer_of_model("roberta-large")
    17
    """
    layer = figures()["layers"].get(_listed(model))
    return None if layer is None else int(layer)


def _listed(model: str) -> str:
    """Return a model's name in the table, which has some models by names that the Hub has moved since; bert_score
    takes a folder of such a name for the model, too.
    """
    model = model.removeprefix("./")
    owner, _, name = model.partition("/")
    return name if owner in MOVED else model


def baseline_of_layer(language: str, model: str, layer: int) -> tuple[float, float, float] | None:
    """Return the precision, recall and F1 that unrelated texts of a language have; None where nobody measured them."""
    rows = figures()["baselines"].get(language, {}).get(_listed(model), [])
    return tuple(rows[layer]) if 0 <= layer < len(rows) else None
