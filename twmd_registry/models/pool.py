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
_LOADED = weakref.WeakValueDictionary[Hashable, Any]()


def share_model(key: Hashable, load: Callable[[], Any]) -> Any:
    """Return a shared model, loaded now if it is not in memory yet; it stays there as long as a backend refers to it.

    Adapters are merged here, so number formats of a surrounding training loop are overridden. transformers draws random
    weights before it reads the file; the caller's random state is restored. The key identifies the model, device and
    dtype included.
    """
    import torch

    from twmd_registry.models.inference import exact_arithmetic

    with _LOCK:
        model = _LOADED.get(key)
        if model is None:
            with exact_arithmetic(), torch.random.fork_rng(devices=[]):
                model = _LOADED[key] = load()
        return model


def _after_fork() -> None:
    """In a forked process, renew the lock and drop models that other threads were using."""
    global _LOCK  # noqa: PLW0603 (a thread that does not exist after a fork may have held it)
    _LOCK = threading.RLock()
    for key, model in list(_LOADED.items()):
        if model.lock.acquire(blocking=False):
            model.lock.release()
        else:
            del _LOADED[key]  # its backend may have been in the middle of a layer, and loads it again


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
