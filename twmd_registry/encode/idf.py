"""Inverse document frequencies: how rare a token is in texts."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twmd_registry.encode.encoder import Encoder, tokenise
from twmd_registry.errors import InputError, ModelError
from twmd_registry.models.fitted import FittedFile, FittedKind, FittedPart, locate, sha256_of
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.hashes import LENGTH
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.references import is_blank

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

FREQUENCIES = FittedKind("document frequencies", "idf", "idf", ".json", "idf")
"""Files of fitted frequencies."""

_CHUNK = 8192
"""Texts to tokenise together."""


def idf_weights(frequencies: np.ndarray, unseen: int | None = None) -> np.ndarray:
    """Return ``log((N + 1) / (df + 1))`` of every token id (Zhao et al. 2019; BERTScore); shape (V,).

    `frequencies` come from `count_documents`. The token `unseen` counts as occurring in no text, because unknown tokens
    represent different strings.
    """
    counts = np.where(np.arange(len(frequencies) - 1) == unseen, 0, frequencies[:-1])
    return np.asarray(np.log((frequencies[-1] + 1) / (counts + 1)), dtype=np.float32)


def count_documents(
    encoder: Encoder, texts: Sequence[str], times: np.ndarray, spec: MetricSpec, progress: Progress | None = None
) -> np.ndarray:
    """Return how many texts contain each token, special tokens included, and last the number of texts.

    `texts` are distinct and `times` their counts, shape (texts,). `spec` sets how texts are read. The result has shape
    (V + 1,), int64.
    """
    expect(progress, len(texts))
    counts = np.zeros(vocabulary_size(encoder.tokenizer) + 1, dtype=np.int64)
    counts[-1] = times.sum()
    for start in range(0, len(texts), _CHUNK):
        rows = tokenise(encoder.tokenizer, texts[start : start + _CHUNK], spec.truncation.cut)
        for text, often in zip(rows, times[start : start + _CHUNK].tolist(), strict=True):
            counts[np.unique(text.ids)] += often
        if progress is not None:
            progress(len(rows))
    return counts


def vocabulary_size(tokenizer: PreTrainedTokenizerFast) -> int:
    """Return the largest token id plus 1."""
    return int(max(tokenizer.get_vocab().values())) + 1


def vocabulary_hash(tokenizer: PreTrainedTokenizerFast) -> str:
    """Return the hash of a vocabulary. Models that share it share document frequencies."""
    entries = json.dumps(sorted(tokenizer.get_vocab().items()), ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(entries.encode()).hexdigest()[:LENGTH]


def fit_idf(encoder: Encoder, texts: Iterable[str], spec: MetricSpec, progress: Progress | None = None) -> FittedFile:
    """Return a frequencies file, counted over a corpus; repeated and empty texts count.

    Raises:
        InputError: No texts.
    """
    times = Counter(texts)
    if all(map(is_blank, times)):
        raise InputError("nothing to count: every text is empty.")
    frequencies = count_documents(encoder, list(times), np.array(list(times.values())), spec, progress)
    counts = {int(i): int(frequencies[i]) for i in np.flatnonzero(frequencies[:-1])}
    return write_frequencies(encoder, counts, int(frequencies[-1]))


def write_frequencies(encoder: Encoder, counts: Mapping[int, int], documents: int) -> FittedFile:
    """Return a frequencies file with the number of documents that contain each token id."""
    about = {
        "tokenizer": vocabulary_hash(encoder.tokenizer),
        "model": encoder.files.name,
        "documents": documents,
        "counts": {str(token): count for token, count in counts.items()},
    }
    return FittedFile(FREQUENCIES, (json.dumps(about, sort_keys=True, indent=0) + "\n").encode())


def find_idf(name: str, tokenizer: PreTrainedTokenizerFast) -> FittedPart[np.ndarray]:
    """Find a frequencies file by hash or path, and read it.

    Raises:
        ModelError: The file is missing or damaged, or belongs to a vocabulary other than the tokenizer's.
    """
    path = locate(FREQUENCIES, name)
    part = read_idf(path, vocabulary_size(tokenizer))
    vocab = vocabulary_hash(tokenizer)
    if (other := part.about["tokenizer"]) != vocab:
        vocabularies = f"vocabulary {other}, this model's {vocab}"
        other_tokenizer = f"frequencies of another tokenizer ({vocabularies})"
        raise ModelError(f"{path.name} contains {other_tokenizer}: fit them with 'twmd fit idf'.")
    return part


def read_idf(path: Path, size: int) -> FittedPart[np.ndarray]:
    """Read a frequencies file; raise ModelError if it is not one.

    Token ids from `size` on are left out. They belong to another vocabulary, which `find_idf` refuses.
    """
    try:
        content = path.read_bytes()
        about = json.loads(content)
        frequencies = {int(token): count for token, count in about["counts"].items() if 0 <= int(token) < size}
        counts = np.zeros(size + 1, dtype=np.int64)
        counts[[*frequencies, size]] = [*frequencies.values(), about["documents"]]
        tokenizer = re.fullmatch(r"[0-9a-f]{12}", about["tokenizer"])[0]  # type: ignore[index]
        fitted = FittedPart(counts, sha256_of(content), {"tokenizer": tokenizer})
    except (OSError, KeyError, TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path.name} is not a file of document frequencies written by 'twmd fit idf'.") from error
    if counts.min() < 0 or counts.max() > counts[-1]:
        raise ModelError(f"{path.name} contains counts below 0 or above the number of texts: fit it again.")
    return fitted
