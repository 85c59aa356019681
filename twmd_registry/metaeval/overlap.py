"""Overlap between a metric's training or tuning data and the evaluation data.

A safetensors file next to an adapter, model or preset has hashes of training references, one vector per data set. A
hash is the first 8 bytes of the sha256 of a reference, in lower case with single spaces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from twmd_registry.errors import ModelError
from twmd_registry.messages import warn
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.paths import write_file
from twmd_registry.registry.presets import HASHES, default_preset, presets_of
from twmd_registry.registry.spec import apply_preset

if TYPE_CHECKING:
    from twmd_registry.engine.scorer import Scorer

TRAINING_DATA = f"training_data{HASHES}"
"""File in the folder of a trained adapter or model."""

Hashes = dict[str, np.ndarray]
"""By data set, the distinct hashes of its references, ascending; shape (references,), uint64."""


def normalise(text: str) -> str:
    """Normalise a reference so that copies match: lower case, single spaces."""
    return " ".join(text.casefold().split())


def _hash_all(references: Iterable[str | Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Return every reference's segment and hash; shape (references,) each, uint64."""
    rows, hashes = [], []
    for row, texts in enumerate(references):
        for text in [texts] if isinstance(texts, str) else texts:
            digest = hashlib.sha256(normalise(text).encode("utf-8", "surrogatepass")).digest()
            rows.append(row)
            hashes.append(int.from_bytes(digest[:8], "big"))
    return np.array(rows, dtype=np.uint64), np.array(hashes, dtype=np.uint64)


def hash_references(references: Iterable[str | Sequence[str]]) -> np.ndarray:
    """Return the distinct hashes of all references, ascending; shape (references,), uint64."""
    return np.unique(_hash_all(references)[1])


def write_hashes(hashes: Hashes, path: Path) -> None:
    """Write the hashes of training data; raise FileError if that fails."""
    write_file(path, save(hashes))


def read_hashes(path: Path) -> Hashes:
    """Read the hashes of training data by ascending name; none without a file. Raise ModelError for a damaged file."""
    try:
        return dict(sorted(load(path.read_bytes()).items())) if path.is_file() else {}
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path}: expected hashes of training data ({error}); remove or write it again.") from error


def training_hashes(scorer: Scorer) -> dict[str, Hashes]:
    """Return the hashes of training data by trained or tuned part and data set; loads the models of all members."""
    hashes: dict[str, Hashes] = {}
    for member in scorer.members:
        files, adapter = member.backend.files, member.backend.adapter
        parts = {f"model {files.name}": files.folder} | ({f"adapter {adapter.name}": adapter.folder} if adapter else {})
        hashes |= {name: known for name, folder in parts.items() if (known := read_hashes(folder / TRAINING_DATA))}
        hashes |= _tuned_settings(member.spec)
    return hashes


def _tuned_settings(spec: MetricSpec) -> dict[str, Hashes]:
    """Return the data that the closest preset's settings were tuned on, if this specification shares them."""
    values, usual = spec.values(), default_preset(spec.metric, spec.model)
    candidates = []
    for preset in presets_of(spec.metric).values():
        preset_values = apply_preset(preset, {"model": str(spec.model)}).values()
        by_name = preset.model == spec.model or preset is usual
        same_model = preset.fingerprint == spec.fingerprint if preset.fingerprint else by_name
        distance = sum(preset_values.get(name) != values.get(name) for name in {*preset_values, *values})
        if same_model and distance < len(values):
            candidates.append((distance, preset, preset_values))
    if not candidates:
        return {}
    _, preset, preset_values = min(candidates, key=lambda candidate: candidate[0])
    kept = [name for name in preset.tuned if name in preset_values and preset_values[name] == values.get(name)]
    hashes = read_hashes(preset.training_data) if kept else {}
    tuned_on = {name: hashes[name] for name in preset.tuned_on if name in hashes}
    return {f"{', '.join(kept)} of {spec.metric}": tuned_on}


def warn_about_overlap(
    labels: Iterable[str], scorers: Iterable[Scorer], references: Sequence[str | Sequence[str]], data: str
) -> tuple[str, ...]:
    """Warn about metrics that were trained or tuned on these references; return the warnings."""
    (rows, hashes), trained = _hash_all(references), dict[str, list[str]]()
    for label, scorer in zip(labels, scorers, strict=True):
        known, parts, names = np.zeros(len(references), dtype=bool), dict[str, None](), dict[str, None]()
        for part, by_name in training_hashes(scorer).items():
            for name, known_hashes in by_name.items():
                shared = np.isin(hashes, known_hashes)
                if shared.any():
                    known[rows[shared]] = True
                    parts[part] = names[name.partition(" (")[0]] = None
        if parts:
            share = f"{known.sum()} of {len(known)} rows of {data} ({known.mean():.1%}; from {', '.join(names)})"
            trained.setdefault(f"trained or tuned ({'; '.join(parts)}) on references of {share}", []).append(label)
    sentences = tuple(
        f"{', '.join(named)} {'was' if len(named) == 1 else 'were'} {what}: agreement with them may not generalise to "
        "other texts."
        for what, named in trained.items()
    )
    for sentence in sentences:
        warn(sentence)
    return sentences
