"""Loaded models: one per process and setting, shared by all scorers that use it, freed with the last of them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_LOCK = threading.RLock()
_LOADED: dict[Hashable, Any] = {}
_HOLDERS: dict[Hashable, int] = {}


class ModelHandle:
    """One user's claim on a shared model: loaded at first use, given back by `release` or when the user is gone."""

    def __init__(self, key: Hashable, load: Callable[[], Any]) -> None:
        """Remember how to load; nothing is loaded yet.

        Args:
            key: Everything that decides which model it is, device and dtype included.
            load: Loads it.
        """
        self._key, self._load = key, load
        self._claim: weakref.finalize[[Hashable], ModelHandle] | None = None

    def get(self) -> Any:
        """Return the model, loaded now if it is not in memory yet.

        Adapters are merged here, whatever number formats a surrounding training loop has set. Weights that are about to
        be read from a file are drawn at random first: the caller's random numbers do not notice.
        """
        import torch

        from twmd_registry.models.arithmetic import exact_arithmetic

        with _LOCK:
            if self._key not in _LOADED:
                with exact_arithmetic(), torch.random.fork_rng(devices=[]):
                    _LOADED[self._key] = self._load()
            if self._claim is None or not self._claim.alive:
                _HOLDERS[self._key] = _HOLDERS.get(self._key, 0) + 1
                self._claim = weakref.finalize(self, _give_back, self._key)
                self._claim.atexit = False
            return _LOADED[self._key]

    def release(self) -> None:
        """Give the claim back; the last one to do so frees the model's memory."""
        if self._claim is not None:
            self._claim()


def _give_back(key: Hashable) -> None:
    with _LOCK:
        _HOLDERS[key] -= 1
        if _HOLDERS[key] == 0:
            del _HOLDERS[key]
            _LOADED.pop(key, None)
            empty_device_cache()


def _after_fork() -> None:
    """Drop the locks of threads that do not exist in a forked process, and the models that they were using."""
    global _LOCK  # noqa: PLW0603 (as said)
    _LOCK = threading.RLock()
    for key, model in list(_LOADED.items()):
        if model.lock.acquire(blocking=False):
            model.lock.release()
        else:
            del _LOADED[key]  # its owner may have been in the middle of a layer, and loads it again


os.register_at_fork(after_in_child=_after_fork)


def empty_device_cache() -> None:
    """Hand memory that no tensor uses back to the device."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class LoadedModel:
    """What loaded models share: a network, and the device on which it works.

    Attributes:
        network: The network.
        device: Where it runs.
        lock: To be held while it is used.
        parked: Whether it waits in the CPU's memory.
        static: Whether it is a table of word vectors; words without one are then left out.
    """

    network: Any
    device: torch.device
    lock: Any
    parked = False
    static = False

    def park(self) -> None:
        """Move the network to the CPU and free its device's memory; it comes back by itself at the next use."""
        with self.lock:
            self.network.to("cpu")
            self.parked = True
        empty_device_cache()

    def wake(self) -> None:
        """Bring a parked network back to its device; called with the lock held, before every use."""
        if self.parked:
            self.network.to(self.device)
            self.parked = False
