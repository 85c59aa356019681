"""Mean vectors of an encoder over a corpus, fitted once and kept in a small file named by its content."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from twmd_registry.encode.encoder import Encoder, tokenise
from twmd_registry.errors import InputError, ModelError
from twmd_registry.models.fitted import FittedFile, FittedKind, FittedPart, locate, sha256_of
from twmd_registry.progress import Progress, expect, split_progress
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.references import is_blank

SPECIAL_LEVEL: dict[str, int] = {"none": 0, "cls": 1, "all": 2, "partners": 2}
"""Largest special mark (see `EncodedTexts.special`) of the tokens to compare, by policy."""
MEANS = ("none", "cls", "all")
"""Policies with a mean in the file. ``partners`` uses the mean of ``none``, because the same tokens count."""

MEAN_VECTOR = FittedKind("mean vector", "backgrounds", "mean", ".safetensors", "background")
"""Files of fitted mean vectors."""

_FIT_TEXTS = 1024
"""Texts whose hidden states of all layers are in memory together."""


MeanVectors: TypeAlias = FittedPart[dict[str, Tensor]]
"""By special-token policy, one mean per hidden state; each of shape (L + 1, D), float32."""


def origin_of(background: MeanVectors) -> str:
    """Return the hash of the fitted file, which differs if a model was later trained with the means."""
    return str(background.about.get("trained_with", background.hash))


def fit_background(
    encoder: Encoder,
    texts: Iterable[str],
    spec: MetricSpec,
    progress: Progress | None = None,
    batch_tokens: int | None = None,
) -> FittedFile:
    """Return a mean-vector file: every hidden state averaged over all tokens of a corpus. Repeated texts count.

    Raises:
        InputError: No texts.
    """
    times = Counter(text for text in texts if not is_blank(text))
    if not times:
        raise InputError("nothing to fit a mean on: every text is empty.")
    distinct, layers = sorted(times), range(encoder.depth + 1)  # sorted, so the hash does not depend on order
    sums = {level: torch.zeros(len(layers), encoder.width, dtype=torch.float64) for level in MEANS}
    counts = dict.fromkeys(MEANS, 0.0)
    expect(progress, len(distinct))
    for start in range(0, len(distinct), _FIT_TEXTS):
        part = distinct[start : start + _FIT_TEXTS]
        tokens = tokenise(encoder.tokenizer, part, spec.truncation.cut, drop_unknown=encoder.static)
        # The encoder reports windows, and a text may have several.
        with split_progress(progress, len(part), stages=1)(len(part)) as report:
            window = spec.truncation.limit, spec.truncation.stride
            encoded = encoder.encode(tokens, layers, *window, batch_tokens=batch_tokens, progress=report)
        weight = torch.tensor([times[text] for text in part], device=encoder.device).repeat_interleave(encoded.lengths)
        for policy in MEANS:
            taking = weight * (encoded.special <= SPECIAL_LEVEL[policy])
            counts[policy] += float(taking.sum())
            for k in layers:
                sums[policy][k] += (taking.to(torch.float32) @ encoded.layers[k]).to("cpu", torch.float64)
    about = {
        "model": encoder.files.name,
        "fingerprint": encoder.files.fingerprint,
        "adapter": spec.adapter,
        "limit": encoder.check_limit(spec.truncation.limit),
        "texts": sum(times.values()),
        "tokens": int(counts["none"]),
    }
    if spec.truncation.stride:
        about["stride"] = spec.truncation.stride
    means = {policy: (sums[policy] / max(counts[policy], 1.0)).to(torch.float32) for policy in MEANS}
    return FittedFile(MEAN_VECTOR, _write(means, about))


def _write(means: dict[str, Tensor], about: dict[str, str | int | None]) -> bytes:
    # A single metadata entry, because safetensors writes several in no fixed order and the file is named by its bytes.
    return save({str(policy): means[policy] for policy in MEANS}, metadata={"twmd": json.dumps(about, sort_keys=True)})


def transfer_means(background: MeanVectors, name: str, fingerprint: str, adapter: str | None) -> bytes:
    """Return a mean-vector file with the same means for a model that was trained with them as constants.

    Name, content and full adapter name identify the model. ``trained_with`` records the means' origin.
    """
    owner = {"model": name, "fingerprint": fingerprint, "adapter": adapter, "trained_with": origin_of(background)}
    return _write(background.content, background.about | owner)


def find_background(name: str | None, fingerprint: str, adapter: str | None) -> MeanVectors:
    """Find and read a mean-vector file by hash or path, or the packaged one for the model (`name` is None).

    Raises:
        ModelError: The file is missing or damaged, or was fitted on another model (fingerprint and full adapter name).
    """
    if name is None:
        for path in sorted(MEAN_VECTOR.packaged.glob("mean-*.safetensors")):
            means = read_background(path)
            if _owner(means) == (fingerprint, adapter):
                return means
        fit = "fit one with 'twmd fit mean FILE... --set model=MODEL', then set centering=background:HASH"
        raise ModelError(f"no mean vector comes with this package for this model: {fit}.")
    means = read_background(locate(MEAN_VECTOR, name))
    if _owner(means) != (fingerprint, adapter):
        other = f"{means.about['model']}@{means.about['fingerprint']}, adapter {means.about['adapter']}"
        this = f"this model (@{fingerprint}, adapter {adapter}): fit another with 'twmd fit mean'"
        raise ModelError(f"mean vector {means.hash} was fitted on {other}, not on {this}.")
    return means


def _owner(background: MeanVectors) -> tuple[object, object]:
    return background.about["fingerprint"], background.about["adapter"]


def read_background(path: Path) -> MeanVectors:
    """Read a mean-vector file; raise ModelError if it is not one, or contains numbers that are not finite."""
    try:
        content = path.read_bytes()  # read once, so the hashed bytes are the parsed ones
        tensors = load(content)
        about = json.loads(json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]["twmd"])
        means = {policy: tensors[policy] for policy in MEANS}
        means["partners"] = means["none"]
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"{path.name} is not a mean-vector file written by 'twmd fit mean'.") from error
    if not all(bool(np.isfinite(mean.numpy()).all()) for mean in means.values()):
        raise ModelError(f"{path.name} contains numbers that are not finite: fit it again with 'twmd fit mean'.")
    return FittedPart(means, sha256_of(content), about)
