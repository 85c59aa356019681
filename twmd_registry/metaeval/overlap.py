"""Overlap of the data that a metric was trained or tuned on with the data that it is measured on.

Training data are known by hashes of their references: the first 8 bytes of the sha256 of a reference in lower case,
with runs of white space as
one space. They stand in a safetensors file beside an adapter, a model or a preset, one sorted vector per data set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from twmd_registry.errors import FileError, ModelError, warn
from twmd_registry.registry.paths import write_whole
from twmd_registry.registry.presets import HASHES, default_preset, presets_of
from twmd_registry.registry.spec import MetricSpec, apply_preset

if TYPE_CHECKING:
    from twmd_registry.engine.scorer import Scorer

TRAINING_DATA = f"training_data{HASHES}"
"""The file in the folder of a trained adapter or model."""
HASH_BYTES = 8

Hashes = dict[str, np.ndarray]
"""By data set, the hashes of its references, ascending and each once; shape (references,), uint64."""


def normalise(text: str) -> str:
    """Write a reference so that copies of it are equal: in lower case, with runs of white space as one space."""
    return " ".join(text.casefold().split())


def hash_references(references: Iterable[str | Sequence[str]]) -> np.ndarray:
    """Hash the references of segments.

    Args:
        references: Of every segment a text or a list of texts.

    Returns:
        Ascending, each once; shape (references,), uint64.
    """
    return np.array(sorted({_hash(text) for own in references for text in _texts(own)}), dtype=np.uint64)


def _texts(own: str | Sequence[str]) -> Sequence[str]:
    return [own] if isinstance(own, str) else own


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(normalise(text).encode("utf-8", "surrogatepass")).digest()[:HASH_BYTES], "big")


def write_hashes(hashes: Hashes, path: Path) -> None:
    """Write the hashes of training data.

    Raises:
        FileError: The file cannot be written.
    """
    try:
        write_whole(path, save(hashes))
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}.") from error


def read_hashes(path: Path) -> Hashes:
    """Read the hashes of training data; none where there is no such file.

    Raises:
        ModelError: The file cannot be read, or holds something else.
    """
    try:
        found: Hashes = load(path.read_bytes()) if path.is_file() else {}
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"{path}: expected hashes of training data ({error}); remove the file, or write it again."
        ) from error
    if wrong := [name for name, own in found.items() if own.dtype != np.uint64 or own.ndim != 1]:
        raise ModelError(
            f"{path}: expected vectors of uint64, hashes of training data, and {wrong[0]!r} is none; remove the "
            "file, or write it again."
        )
    return found


def training_hashes(scorer: Scorer) -> dict[str, Hashes]:
    """Collect what is known of the data that a metric was trained or tuned on.

    An adapter and a model bring a file. Settings count as tuned on the data of the preset of this model that they come
    closest to, as far as they
    have the values that were chosen there.

    Args:
        scorer: The metric; of an ensemble all members are looked at. Loads the models.

    Returns:
        By what was trained or tuned, the hashes by data set.

    Raises:
        ModelError: A file is damaged.
        TwmdError: As for `Scorer.spec`.
    """
    found: dict[str, Hashes] = {}
    for member in scorer.members:
        files, adapter = member.backend.files, member.backend.adapter
        parts = {f"model {files.name}": files.folder} | ({f"adapter {adapter.name}": adapter.folder} if adapter else {})
        found |= {name: own for name, folder in parts.items() if (own := read_hashes(folder / TRAINING_DATA))}
        found |= _tuned_settings(member.spec)
    return found


def _tuned_settings(spec: MetricSpec) -> dict[str, Hashes]:
    """The data on which values of the preset were chosen that a specification comes closest to, as far as it has these
    values.
    """
    values, usual = spec.values(), default_preset(spec.metric, spec.model)
    found = dict[str, Hashes]()
    closest = len(values)
    for preset in presets_of(spec.metric).values():
        own = apply_preset(preset, {"model": str(spec.model)}).values()
        same_model = (
            preset.fingerprint == spec.fingerprint
            if preset.fingerprint
            else preset.model == spec.model or preset is usual
        )
        distance = sum(own.get(name) != values.get(name) for name in {*own, *values})
        if same_model and distance < closest:
            closest = distance
            kept = [name for name in preset.tuned if name in own and own[name] == values.get(name)]
            hashes = read_hashes(preset.training_data) if kept else {}
            found = {
                f"{', '.join(kept)} of {spec.metric}": {
                    name: hashes[name] for name in preset.tuned_on if name in hashes
                }
            }
    return found


def describe_overlap(label: str, scorer: Scorer, references: Sequence[str | Sequence[str]], data: str) -> str | None:
    """Describe how much of the data a metric was trained or tuned on.

    A segment is known to the metric where one of its references is a reference of the training data, whatever was
    predicted.

    Args:
        label: Of the metric.
        scorer: The metric.
        references: Of every segment that it is measured on a text or a list of texts.
        data: What these segments are called.

    Returns:
        A sentence; None where no segment is known.

    Raises:
        TwmdError: As for `training_hashes`.
    """
    training = training_hashes(scorer)
    if not any(training.values()):
        return None
    flat = [(row, _hash(text)) for row, own in enumerate(references) for text in _texts(own)]
    rows, hashes = (np.array(column, dtype=np.uint64) for column in zip(*flat, strict=True))
    known, parts, names = np.zeros(len(references), dtype=bool), list[str](), list[str]()
    for part, by_name in training.items():
        for name, own in by_name.items():
            here = rows[np.isin(hashes, own)]
            if len(here):
                known[here] = True
                parts.append(part)
                names.append(name.partition(" (")[0])
    if not parts:
        return None
    return (
        f"{label} was trained or tuned ({'; '.join(dict.fromkeys(parts))}) on references of {known.sum()} of "
        f"{len(known)} rows of {data} "
        f"({known.mean():.1%}; from {', '.join(dict.fromkeys(names))}): what is measured on them says little "
        "about other texts."
    )


def warn_about_overlap(
    labels: Iterable[str], scorers: Iterable[Scorer], references: Sequence[str | Sequence[str]], data: str
) -> tuple[str, ...]:
    """Warn of metrics that were trained or tuned on the data they are measured on; arguments, result and errors as for
    `describe_overlap`.
    """
    pairs = zip(labels, scorers, strict=True)
    found = tuple(text for label, scorer in pairs if (text := describe_overlap(label, scorer, references, data)))
    for text in found:
        warn(text)
    return found
