"""Baseline rescaling, as in bert_score: unrelated texts score 0, identical texts 1."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import numpy as np

from twmd_registry.engine.pairs import check_rows
from twmd_registry.errors import InputError, ModelError
from twmd_registry.models.fitted import FittedFile, FittedKind, FittedPart, locate, sha256_of
from twmd_registry.registry.bert_score import baseline_of_layer, language_of
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import OUTPUTS
from twmd_registry.registry.references import is_blank

BASELINE = FittedKind("baseline", "baselines", "baseline", ".json", "baseline")
"""Files of fitted baselines."""

FREE = frozenset({"output", "multiref", "baseline", "revision", "model"})
"""Keys that a baseline does not depend on; the fingerprint identifies the model."""


Baseline: TypeAlias = FittedPart[tuple[float, ...]]
"""The scores of unrelated texts: mean precision, recall and F1, or the mean score of a one-sided metric."""


def keys_of(spec: MetricSpec) -> dict[str, str]:
    """Return the keys that a baseline depends on, as text."""
    values = {name: KEYS[name].format(value) for name, value in spec.values().items() if name not in FREE}
    return {"metric": str(spec.metric), "fingerprint": str(spec.fingerprint), **values}


def random_pairs(texts: Iterable[str], number: int, seed: int) -> tuple[list[str], list[str]]:
    """Draw random pairs of distinct texts, in which all texts occur about equally often; raise InputError for fewer
    than two distinct texts.
    """
    distinct = sorted({text for text in check_rows(texts, "texts") if not is_blank(text)})
    if seed < 0:
        raise InputError(f"seed must not be negative; got {seed}.")
    if len(distinct) < 2:
        raise InputError(f"a baseline needs at least two distinct texts; there are {len(distinct)}.")
    draw = np.random.default_rng(seed)
    firsts: list[str] = []
    seconds: list[str] = []
    while len(firsts) < number:
        order = draw.permutation(len(distinct))
        firsts += [distinct[i] for i in order]
        seconds += [distinct[i] for i in np.roll(order, 1)]
    return firsts[:number], seconds[:number]


def make_baseline(spec: MetricSpec, scores: np.ndarray, seed: int) -> FittedFile:
    """Return the baseline file for an applied specification, given its scores of random pairs, shape (sides, pairs).
    Raises ModelError if unrelated texts score 1 or more, because no score could exceed that.
    """
    values = [float(np.mean(side, dtype=np.float64)) for side in scores]
    _check(values, "these settings")
    about = {
        "keys": keys_of(spec),
        "pairs": scores.shape[1],
        "seed": int(seed),
        "values": dict(zip(OUTPUTS, values, strict=False)),
    }
    return FittedFile(BASELINE, (json.dumps(about, sort_keys=True, indent=1) + "\n").encode())


def find_baseline(baseline: str, spec: MetricSpec) -> Baseline:
    """Find a baseline file by hash or path, and read it. Raises ModelError if it is missing or damaged, or was fitted
    for an applied specification other than `spec`; the message names the keys.
    """
    if language := language_of(baseline):
        return _baseline_of_language(language, spec)
    path = locate(BASELINE, baseline)
    if path.suffix in {".tsv", ".csv"}:
        return _read_table(path, spec)
    try:
        content = path.read_bytes()
        about = json.loads(content)
        values = [float(about["values"][side]) for side in OUTPUTS if side in about["values"]]
        keys = {str(name): str(value) for name, value in about["keys"].items()}
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path.name} is not a baseline that 'twmd fit baseline' wrote.") from error
    _check(values, path.name)
    needed = len(OUTPUTS) if entry(spec.metric).two_sided else 1
    if len(values) != needed:
        raise ModelError(f"{path.name} contains {len(values)} values: {spec.metric} needs {needed}.")
    here = keys_of(spec)
    if other := sorted(name for name in {*here, *keys} if here.get(name) != keys.get(name)):
        listed = "; ".join(
            f"{name}: {keys.get(name, 'none')} in the file, {here.get(name, 'none')} here" for name in other
        )
        raise ModelError(f"{path.name} was fitted for other settings ({listed}): fit another with 'twmd fit baseline'.")
    return FittedPart(tuple(values), sha256_of(content), keys)


def _baseline_of_language(language: str, spec: MetricSpec) -> Baseline:
    """Return a baseline from bert_score's table, which has no file of its own and no hash."""
    layer = str(spec.layer)  # several layers and regression models have no row
    values = baseline_of_layer(language, str(spec.model), int(layer)) if layer.isdecimal() else None
    if values is None:
        where = f"layer {spec.layer} of {spec.model} and the language {language!r}"
        remedy = "fit one ('twmd fit baseline'), or name a file (baseline=FILE, baseline_path=FILE)"
        raise ModelError(f"bert_score has no baseline for {where}: {remedy}.")
    return FittedPart(values, "", keys_of(spec))


def _read_table(path: Path, spec: MetricSpec) -> Baseline:
    """Read a row of a table in bert_score's format: one row per layer, in order, with precision, recall and F1."""
    try:
        content = path.read_bytes()
        _, *rows = csv.reader(content.decode("utf-8").splitlines())
        values = [float(value) for value in rows[int(str(spec.layer))][1:]]
    except (OSError, ValueError, IndexError) as error:
        expected = "expected a header LAYER,P,R,F, then one line per layer from 0"
        raise ModelError(f"{path.name} has no row of numbers for layer {spec.layer}: {expected}.") from error
    _check(values, path.name)
    if len(values) != len(OUTPUTS):
        raise ModelError(f"{path.name} has {len(values)} numbers for layer {spec.layer}: expected P,R,F after LAYER.")
    return FittedPart(tuple(values), sha256_of(content), keys_of(spec))


def _check(values: list[float], where: str) -> None:
    if not values or not all(math.isfinite(value) and value < 1 for value in values):
        raise ModelError(f"{where}: a baseline must be below 1, not {', '.join(map(str, values)) or 'nothing'}.")


def rescale(scores: np.ndarray, baseline: Baseline) -> np.ndarray:
    """Return ``(x - b) / (1 - b)``, with its own b for each side (Zhang et al. 2020, like bert_score's
    ``rescale_with_baseline``); shape (sides, pairs).

    As in bert_score, an empty text's 0 becomes -b / (1 - b), which is less than the score of unrelated texts.
    """
    b = np.array(baseline.content)[:, None]  # (sides, 1)
    return np.asarray((scores - b) / (1 - b))
