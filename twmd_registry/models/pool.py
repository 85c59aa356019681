"""Loaded models: one per process and setting, shared by its scorers, freed with the last of them."""

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
    """A claim on a shared model: loads it at first use; ends by `release` or when the handle is garbage-collected."""

    def __init__(self, key: Hashable, load: Callable[[], Any]) -> None:
        """Store how to load the model; nothing is loaded yet.

        Args:
            key: Identifies the model, device and dtype included.
            load: Loads it.
        """
        self._key, self._load = key, load
        self._claim: weakref.finalize[[Hashable], ModelHandle] | None = None

    def get(self) -> Any:
        """Return the model, loaded now if it is not in memory yet.

        Adapters are merged here, so number formats of a surrounding training loop are overridden. transformers draws
        random weights before it reads the file; the caller's random state is restored.
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
        """End the claim; the last claim that ends frees the model's memory."""
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
    """In a forked process, renew the lock and drop models that other threads were using."""
    global _LOCK  # noqa: PLW0603 (a thread that does not exist after a fork may have held it)
    _LOCK = threading.RLock()
    for key, model in list(_LOADED.items()):
        if model.lock.acquire(blocking=False):
            model.lock.release()
        else:
            del _LOADED[key]  # its owner may have been in the middle of a layer, and loads it again


os.register_at_fork(after_in_child=_after_fork)


def empty_device_cache() -> None:
    """Free cached device memory that no tensor uses."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class LoadedModel:
    """Base of loaded models: a network and its device.

    Attributes:
        network: The network.
        device: Its device.
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
        """Move the network to the CPU and free device memory; the next use moves it back."""
        with self.lock:
            self.network.to("cpu")
            self.parked = True
        empty_device_cache()

    def wake(self) -> None:
        """Bring a parked network back to its device; called with the lock held, before every use."""
        if self.parked:
            self.network.to(self.device)
            self.parked = False
