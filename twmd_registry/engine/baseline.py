"""Baseline rescaling: scores on a scale where unrelated texts are 0 and identical ones 1 (as bert_score has it)."""

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
"""Keys that a baseline does not depend on; the fingerprint says which model it was."""


Baseline: TypeAlias = FittedPart[tuple[float, ...]]
"""The scores of unrelated texts: mean precision, recall and F1; the first alone for a one-sided metric."""


def keys_of(spec: MetricSpec) -> dict[str, str]:
    """Return the keys that a baseline depends on, as text."""
    values = {name: KEYS[name].format(value) for name, value in spec.values().items() if name not in FREE}
    return {"metric": str(spec.metric), "fingerprint": str(spec.fingerprint), **values}


def random_pairs(texts: Iterable[str], number: int, seed: int) -> tuple[list[str], list[str]]:
    """Draw a number of pairs of distinct texts, every text about as often as any other; raise an `InputError` for
    fewer than two distinct texts.
    """
    distinct = sorted({text for text in check_rows(texts, "texts") if not is_blank(text)})
    if seed < 0:
        raise InputError(f"seed must be a whole number from 0; got {seed}.")
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
    """Return the file of a baseline, from scores of random pairs by an applied specification, shape (sides,
    pairs). Raises `ModelError` if unrelated texts score 1 or more: no score could be above that.
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


def find_baseline(wanted: str, spec: MetricSpec) -> Baseline:
    """Find a baseline file by its hash or path, and read it. Raises `ModelError` for no such file, a damaged one, or
    one for another applied specification than `spec` (names the keys).
    """
    if language := language_of(wanted):
        return _baseline_of_language(language, spec)
    path = locate(BASELINE, wanted)
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
    if len(values) != (len(OUTPUTS) if entry(spec.metric).two_sided else 1):
        raise ModelError(f"{path.name} contains {len(values)} values: {spec.metric} needs another number of them.")
    here = keys_of(spec)
    if other := sorted(name for name in {*here, *keys} if here.get(name) != keys.get(name)):
        listed = "; ".join(f"{name}: {keys.get(name, 'none')} there, {here.get(name, 'none')} here" for name in other)
        raise ModelError(f"{path.name} was fitted for other settings ({listed}): fit another with 'twmd fit baseline'.")
    return FittedPart(tuple(values), sha256_of(content), keys)


def _baseline_of_language(language: str, spec: MetricSpec) -> Baseline:
    """Return a baseline of bert_score's table, which has no file of its own, and no hash."""
    layer = str(spec.layer)  # several layers and regression models have no row
    values = baseline_of_layer(language, str(spec.model), int(layer)) if layer.isdecimal() else None
    if values is None:
        where = f"layer {spec.layer} of {spec.model} and the language {language!r}"
        remedy = "fit one ('twmd fit baseline'), or name a file (baseline=FILE, baseline_path=FILE)"
        raise ModelError(f"bert_score has no baseline for {where}: {remedy}.")
    return FittedPart(values, "", keys_of(spec))


def _read_table(path: Path, spec: MetricSpec) -> Baseline:
    """Read a row of bert_score's form of table: a layer per row, in order, with its precision, recall and F1."""
    try:
        content = path.read_bytes()
        _, *rows = csv.reader(content.decode("utf-8").splitlines())
        values = [float(value) for value in rows[int(str(spec.layer))][1:]]
    except (OSError, ValueError, IndexError) as error:
        expected = "expected a line LAYER,P,R,F, and below it a line per layer from 0"
        raise ModelError(f"{path.name} has no row of numbers for layer {spec.layer}: {expected}.") from error
    _check(values, path.name)
    if len(values) != len(OUTPUTS):
        raise ModelError(f"{path.name} has {len(values)} numbers for layer {spec.layer}: expected P,R,F after LAYER.")
    return FittedPart(tuple(values), sha256_of(content), keys_of(spec))


def _check(values: list[float], where: str) -> None:
    if not values or not all(math.isfinite(value) and value < 1 for value in values):
        raise ModelError(f"{where}: a baseline is below 1, not {', '.join(map(str, values)) or 'nothing'}.")


def rescale(scores: np.ndarray, baseline: Baseline) -> np.ndarray:
    """Return ``(x - b) / (1 - b)``, each side by its own b (Zhang et al. 2020, as bert_score's
    ``rescale_with_baseline``); shape (sides, pairs).

    An empty text's 0 becomes -b / (1 - b), as there: less than two unrelated texts score.
    """
    b = np.array(baseline.content)[:, None]  # (sides, 1)
    return np.asarray((scores - b) / (1 - b))
