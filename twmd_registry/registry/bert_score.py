"""Figures from bert_score: each model's layer, each language's model, and the scores of unrelated texts."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

TABLE = Path(str(resources.files("twmd_registry"))) / "data" / "bert_score.json"
"""The figures, with source and licence; written by ``python -m experiments bert-score``."""

MOVED = frozenset({"FacebookAI", "albert", "distilbert", "google-bert", "google-t5", "xlnet"})
"""Hub accounts that now own models which once had no owner in their name."""


@cache
def figures() -> dict[str, Any]:
    """Return all figures."""
    read: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return read


def language_of(baseline: str | None) -> str | None:
    """Return the language of a baseline of this table, as named by the key ``baseline``; None for any other baseline.

    >>> language_of("bert_score:en"), language_of("0123456789ab")
    ('en', None)
    """
    named = re.fullmatch(r"bert_score:([a-z-]+)", baseline or "")
    return named[1] if named else None


def model_of_language(language: str) -> str:
    """Return bert_score's default model for a language such as ``en`` or ``zh``.

    >>> model_of_language("en"), model_of_language("de")
    ('roberta-large', 'bert-base-multilingual-cased')
    """
    known = figures()
    return str(known["languages"].get(language.lower(), known["other_languages"]))


def layer_of_model(model: str) -> int | None:
    """Return the layer that bert_score reads from a model; None for an unknown model.

    >>> layer_of_model("roberta-large")
    17
    """
    layer = figures()["layers"].get(_table_name(model))
    return None if layer is None else int(layer)


def _table_name(model: str) -> str:
    """Return a model's name in the table, which predates some models' move to a Hub account.

    Like bert_score, accept a folder of that name.
    """
    model = model.removeprefix("./")
    owner, _, name = model.partition("/")
    return name if owner in MOVED else model


def baseline_of_layer(language: str, model: str, layer: int) -> tuple[float, ...] | None:
    """Return the precision, recall and F1 of unrelated texts of a language; None if nobody has measured them."""
    rows = figures()["baselines"].get(language, {}).get(_table_name(model), [])
    return tuple(rows[layer]) if 0 <= layer < len(rows) else None
