"""`DiskCache`: encoded texts that come again in another process, in files and up to a number of bytes."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from twmd_registry.encode.cache import CachedText, TextKey
from twmd_registry.encode.index import UNUSABLE, Index, LookupResult
from twmd_registry.encode.shards import text_bytes
from twmd_registry.errors import warn
from twmd_registry.registry.paths import home
from twmd_registry.version import __version__

if TYPE_CHECKING:
    from twmd_registry.encode.encoder import Encoder

SHARD_BYTES = 32_000_000
"""Size of a shard: what is written, and given up, at once."""
SHARES = 8
"""A shard takes this part of the bound at most, so that making room does not empty the cache."""

FORMAT = "2"
"""Of what is kept of a text; 2 has its unknown tokens."""

T = TypeVar("T")


def cache_folder() -> Path:
    """Where encoded texts are kept."""
    return home() / "cache"


class DiskCache:
    """Keeps encoded texts between processes, for one call of a scorer.

    A text is named by a hash of everything its vectors depend on: `TextKey`, the kind of device, and the versions of what computed them
    (a new version must not go on with the vectors of an old one). No text is written, but its token ids are. The layers are part
    of the name as they were asked for together: vectors of layers 4 and 5 are not found by who asks for layer 4.

    All shards, the one that is being written included, take at most as many bytes as the call may use; the index comes on top (about
    400 bytes a text, a hundredth of a MiniLM sentence). A cache that another call let grow larger shrinks when this one writes.

    Whatever fails, scoring goes on: a damaged shard is given up and its texts are encoded again, a damaged index is built again, and a
    folder that cannot be used is left alone for the rest of the call; each with one warning.
    """

    def __init__(self, encoder: Encoder, most_bytes: int, folder: Path | None = None) -> None:
        """Begin a call; nothing is read or written yet.

        Args:
            encoder: Who encodes.
            most_bytes: The bound.
            folder: Where texts are kept; None for `cache_folder()`.
        """
        self._index, self._most_bytes, self._since = Index(folder or cache_folder()), most_bytes, time.time()
        self._model, self._made_with = name_of(encoder), _made_with(encoder)
        self._usable = True

    def find(self, keys: Sequence[TextKey]) -> dict[TextKey, CachedText]:
        """Those of some texts that are kept."""
        named = {self._name(key): key for key in keys}
        found = self._attempt(lambda: self._index.find(named), LookupResult({}))
        if found.damaged:
            warn(f"disk cache: {found.damaged} damaged or missing file(s) in {self._index.folder} are given up; their texts are encoded again.")
        return {named[name]: text for name, text in found.texts.items()}

    def keep(self, texts: Mapping[TextKey, CachedText]) -> None:
        """Keep texts, as far as there is room."""
        self._attempt(lambda: self._add({self._name(key): text for key, text in texts.items()}), None)

    def _add(self, texts: dict[str, CachedText]) -> None:
        for part in _parts(texts, min(SHARD_BYTES, self._most_bytes // SHARES)):
            if not self._index.add(part, self._model, self._most_bytes, self._since):
                return

    def _attempt(self, work: Callable[[], T], otherwise: T) -> T:
        """Do something with the folder; what cannot be done is not tried again in this call."""
        if not self._usable:
            return otherwise
        try:
            return work()
        except UNUSABLE as error:
            self._usable = False
            warn(f"disk cache: {self._index.folder} cannot be used ({error}); scoring goes on without it.")
            return otherwise

    def _name(self, key: TextKey) -> str:
        return hashlib.sha256(json.dumps([self._made_with, *key]).encode()).hexdigest()


def name_of(encoder: Encoder) -> str:
    """A model as ``twmd cache ls`` shows it: name and content, its adapter if it has one, number format."""
    return " ".join(part for part in (f"{encoder.files.name}@{encoder.files.fingerprint}", encoder.adapter, encoder.dtype) if part)


def _made_with(encoder: Encoder) -> list[str]:
    """What vectors depend on beside the model: another version of it may round in another way."""
    import tokenizers
    import torch
    import transformers

    return [FORMAT, __version__, torch.__version__, transformers.__version__, tokenizers.__version__, encoder.device.type]


def _parts(texts: dict[str, CachedText], most_bytes: int) -> Iterator[dict[str, CachedText]]:
    """Texts in their order, as many together as fit into a shard; one that does not fit is alone."""
    part: dict[str, CachedText] = {}
    size = 0
    for key, text in texts.items():
        own = text_bytes(text)
        if part and size + own > most_bytes:
            yield part
            part, size = {}, 0
        part[key] = text
        size += own
    if part:
        yield part
