"""One loaded model per process and setting, shared by everyone who uses it and freed by the last of them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable
from typing import Any

_LOCK = threading.RLock()
_LOADED: dict[Hashable, Any] = {}
_HOLDERS: dict[Hashable, int] = {}


class Handle:
    """One user's claim on a shared model: loaded at first use, given back by `release`."""

    def __init__(self, key: Hashable, load: Callable[[], Any]) -> None:
        """Remember how to load; nothing is loaded yet.

        Args:
            key: Everything that decides which model it is, device and dtype included.
            load: Loads it.
        """
        self._key, self._load, self._held = key, load, False

    def get(self) -> Any:
        """The model, loaded now if nobody has it yet."""
        with _LOCK:
            if self._key not in _LOADED:
                _LOADED[self._key] = self._load()
            if not self._held:
                _HOLDERS[self._key] = _HOLDERS.get(self._key, 0) + 1
                self._held = True
            return _LOADED[self._key]

    def release(self) -> None:
        """Give the claim back; the last one to do so frees the model's memory."""
        with _LOCK:
            if not self._held:
                return
            self._held = False
            _HOLDERS[self._key] -= 1
            if _HOLDERS[self._key] == 0:
                del _LOADED[self._key], _HOLDERS[self._key]
                _empty_device_cache()

    def __del__(self) -> None:
        """A user who forgets to release does so when he is gone."""
        self.release()


def loaded() -> tuple[Hashable, ...]:
    """The keys of all models that are in memory."""
    return tuple(_LOADED)


def _empty_device_cache() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and not sys.is_finalizing() and torch.cuda.is_available():
        torch.cuda.empty_cache()
