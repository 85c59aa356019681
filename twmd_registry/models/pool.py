"""Loaded models: one per process and setting, shared by its scorers, freed with the last of them."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

_LOCK = threading.RLock()
_LOADED: dict[Hashable, Any] = {}
_HOLDERS: dict[Hashable, int] = {}
_CLAIMS = weakref.WeakKeyDictionary[object, "weakref.finalize[[Hashable], object]"]()


def claim_model(owner: object, key: Hashable, load: Callable[[], Any]) -> Any:
    """Return a shared model, loaded now if it is not in memory yet; the owner's claim keeps it there.

    A claim ends by `release_model`, or when its owner is garbage-collected. Adapters are merged here, so number formats
    of a surrounding training loop are overridden. transformers draws random weights before it reads the file; the
    caller's random state is restored. The key identifies the model, device and dtype included.
    """
    import torch

    from twmd_registry.models.inference import exact_arithmetic

    with _LOCK:
        if key not in _LOADED:
            with exact_arithmetic(), torch.random.fork_rng(devices=[]):
                _LOADED[key] = load()
        if owner not in _CLAIMS:
            _HOLDERS[key] = _HOLDERS.get(key, 0) + 1
            _CLAIMS[owner] = weakref.finalize(owner, _give_back, key)
            _CLAIMS[owner].atexit = False
        return _LOADED[key]


def claims_model(owner: object) -> bool:
    """Return whether an object has a claim on a model."""
    return owner in _CLAIMS


def release_model(owner: object) -> None:
    """End a claim, if there is one; the last claim that ends frees the model's memory."""
    if claim := _CLAIMS.pop(owner, None):
        claim()


def _give_back(key: Hashable) -> None:
    with _LOCK:
        _HOLDERS[key] -= 1
        if _HOLDERS[key] == 0:
            del _HOLDERS[key]
            _LOADED.pop(key, None)
            free_memory()


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


def free_memory() -> None:
    """Free cached device memory that no tensor uses, and return free main memory to the system where C's library is
    glibc, which keeps what is free between used parts.
    """
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
