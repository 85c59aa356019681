"""`LoadedModel`: a network that runs on many texts, with products in full float32, in batches that fit into memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import platform
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from twmd_registry.errors import ModelError, NotFiniteError, SpecError, is_out_of_memory
from twmd_registry.models.files import ModelFiles

CPU_TOKENS, ACCELERATOR_TOKENS = 1024, 16384
"""Padded tokens per batch that keep a device busy without filling its memory."""
MANY_BATCHES = 32
"""From here on, batches leave enough free memory between used parts (100 to 180 MB) to be worth returning it."""
X86 = ("x86_64", "amd64")
OPERATORS = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")

_LOCK, LOADING = threading.RLock(), threading.RLock()
"""Held while settings of the process are changed, and while a model is loaded."""
LOADED = weakref.WeakValueDictionary[Hashable, Any]()
"""Loaded models: one per process and `Backend.model_key`, as long as a backend refers to it."""


_OPERATORS = (("cuda", "matmul"), ("mkldnn", "matmul")) if hasattr(torch.backends, "fp32_precision") else ()
"""What has a precision of its own, since torch 2.9."""
_HOLDERS = set[object]()
"""Blocks that compute exactly."""
_UNDO: list[partial[Any]] = []
"""What sets the caller's default dtype and precisions again."""
_FORKED = False
"""Whether this process was forked from one that had loaded this module."""


def _after_fork() -> None:
    """Renew the locks in a forked process, and drop models that other threads were using."""
    global _LOCK, LOADING, _FORKED
    _LOCK, LOADING, _FORKED = threading.RLock(), threading.RLock(), True
    _HOLDERS.clear()
    while _UNDO:
        _UNDO.pop(0)()
    for key, model in list(LOADED.items()):
        if model.lock.acquire(blocking=False):
            model.lock.release()
        else:
            del LOADED[key]  # its backend may have been in the middle of a layer, and loads it again


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_after_fork)


@contextlib.contextmanager
def _usable_threads() -> Iterator[None]:
    """Compute by one thread in a forked process: OpenMP's threads stayed in the parent, which may have started them by
    any use of torch, and the first parallel operator would wait for them for ever.
    """
    if not _FORKED:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Compute float32 in float32: no TF32, no bfloat16, no autocast, no other default dtype or device of the caller.

    Default dtype and precision of products are settings of the whole process: the first of several threads notes them
    and sets ours, the last sets the caller's again. torch's old interface refuses to name a precision where the caller
    uses the new one, in which an operator may have its backend's.
    """
    block = object()
    try:
        with _LOCK:
            _HOLDERS.add(block)
            if not _UNDO:
                _UNDO.append(partial(torch.set_default_dtype, torch.get_default_dtype()))
                with contextlib.suppress(RuntimeError):
                    _UNDO.append(partial(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision()))
                ours = (torch.float32, "highest")
                changes = [partial(undo.func, setting) for undo, setting in zip(_UNDO, ours, strict=False)]
                for backend, operator in _OPERATORS:
                    now, parent = (torch._C._get_fp32_precision_getter(backend, name) for name in (operator, "all"))
                    change = partial(torch._C._set_fp32_precision_setter, backend, operator)
                    _UNDO.append(partial(change, "none" if now == parent else now))
                    changes.append(partial(change, "ieee"))
                for set_ours in changes:
                    set_ours()
        with (
            _usable_threads(),
            contextlib.nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu"),
            torch.autocast("cuda", enabled=False),
            torch.autocast("cpu", enabled=False),
        ):
            yield
    finally:
        with _LOCK:
            _HOLDERS.discard(block)
            while _UNDO and not _HOLDERS:
                _UNDO.pop(0)()


def free_memory() -> None:
    """Free cached device memory that no tensor uses, and return free main memory to the system where C's library is
    glibc, which keeps what is free between used parts.
    """
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


class OneDnnLinear(nn.Linear):
    """``nn.Linear`` that multiplies by oneDNN outside of training.

    torch multiplies float32 by MKL, which on two cores of an AMD EPYC reaches 180 billion operations a second where
    oneDNN reaches 400. oneDNN wants weights in an order of its own, which torch computes in every product, bfloat16's
    too; while `keeps` it is computed once, in the first. Parameters and results equal ``nn.Linear``'s, but for the
    order of sums.
    """

    keeps = False
    kept: Tensor | None = None

    def reset_parameters(self) -> None:
        """Draw no random numbers: weights are always loaded."""

    def forward(self, input: Tensor, *, gelu: bool = False) -> Tensor:  # noqa: A002 (torch's own signature)
        """Return the layer's output, with `gelu` after GELU; `input` has shape (..., D), the output (..., E)."""
        if (
            torch.is_grad_enabled()
            or not torch.backends.mkldnn.enabled
            or input.device.type != "cpu"
            or input.dtype != self.weight.dtype
            or not multiplies(input.dtype)
        ):
            product = super().forward(input)
            return functional.gelu(product) if gelu else product
        if self.keeps and self.kept is None:
            self.kept = torch.ops.mkldnn._reorder_linear_weight(self.weight, input.shape[:-1].numel())
        weights = self.weight if self.kept is None else self.kept
        # oneDNN's own GELU saves a pass over memory, and in bfloat16 a rounding.
        after = ("gelu", "none") if gelu else ("none", "")
        result: Tensor = torch.ops.mkldnn._linear_pointwise(input, weights, self.bias, after[0], [], after[1])
        return result


@cache
def multiplies(dtype: torch.dtype = torch.float32) -> bool:
    """Return whether this torch has oneDNN for this CPU, and multiplies a number format well by it."""
    built = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    if not built or platform.machine().lower() not in X86 or not all(hasattr(torch.ops.mkldnn, op) for op in OPERATORS):
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()))


def use_onednn(network: nn.Module) -> None:
    """Make a network's linear layers multiply by oneDNN, if this torch has it."""
    if not multiplies():
        return
    for module in network.modules():
        if type(module) is nn.Linear:
            module.__class__ = OneDnnLinear


@contextlib.contextmanager
def keep_order(network: nn.Module) -> Iterator[None]:
    """Keep weights, which do not change inside, in oneDNN's order between products; the copies take as much memory."""
    layers = [module for module in network.modules() if isinstance(module, OneDnnLinear)]
    for layer in layers:
        layer.keeps = True
    try:
        yield
    finally:
        for layer in layers:
            layer.keeps, layer.kept = False, None


class LoadedModel:
    """Base of loaded models: a network and its device."""

    network: Any
    device: torch.device
    lock: Any  # To be held while the network is used
    files: ModelFiles
    dtype: str  # Name of the number format
    limit: int | None  # Most tokens it can read, special tokens included; None for no limit
    shortest: int  # The smallest limit that leaves room for text beside special tokens
    parked = False  # Whether it waits in the CPU's memory
    static = False  # Whether it is a table of word vectors; words without one are then left out

    def check_limit(self, requested: int | None) -> int | None:
        """Return the length limit that applies: the one requested, or the model's own; raise a `SpecError` for more
        than the model can read, or no room for text.
        """
        if requested is None:
            return self.limit
        if self.limit is not None and requested > self.limit:
            raise SpecError(
                f"truncation to {requested} tokens is out of range: "
                f"{self.files.name} reads at most {self.limit} tokens (the least of its tokenizer's model_max_length "
                f"and its positions). Set truncation=cut:{self.limit}, or another model_max_length."
            )
        if requested < self.shortest:
            raise SpecError(
                f"truncation to {requested} tokens leaves no room for text beside special tokens: expected at least "
                f"{self.shortest}."
            )
        return requested

    def park(self) -> None:
        """Move the network to the CPU and free device memory; the next use moves it back."""
        with self.lock:
            self.network.to("cpu")
            self.parked = True
        free_memory()

    def run_batches(
        self,
        lengths: np.ndarray,
        batch_tokens: int | None,
        forward: Callable[[np.ndarray], list[Tensor]],
        *,
        pads: bool = True,
    ) -> None:
        """Call `forward` with the numbers of the texts of every batch: texts of like length (of equal length unless the
        model `pads`), the longest first (so that memory that will not do fails at once, not at the end), of at most
        `batch_tokens` padded tokens (None: a number for the device; a single text may be longer). Halves batches for
        which memory does not suffice; raises a `ModelError` if not even one text fits, and a `NotFiniteError` for
        numbers that are not finite: of a broken model, or of a dtype with too small a range. Called with the lock held;
        a parked network is moved to its device.
        """
        if self.parked:
            self.network.to(self.device)
            self.parked = False
        most = batch_tokens or (CPU_TOKENS if self.device.type == "cpu" else ACCELERATOR_TOKENS)
        order, largest, batches = np.argsort(-lengths, kind="stable"), len(lengths), 0
        with keep_order(self.network):
            while len(order):
                size = min(max(most // max(int(lengths[order[0]]), 1), 1), largest, len(order))
                if not pads:
                    size = min(size, int((lengths[order] == lengths[order[0]]).sum()))
                try:
                    # A sum is finite only if all of its numbers are, takes a tenth of the time, and may overflow.
                    if all(bool(x.sum().isfinite() or x.isfinite().all()) for x in forward(order[:size])):
                        order, batches = order[size:], batches + 1
                        continue
                    way_out = "its weights are damaged"
                    if self.dtype != "float32":
                        way_out = f"dtype={self.dtype} may be too small for it: try float32"
                    raise NotFiniteError(f"model {self.files.label} gives numbers that are not finite; {way_out}.")
                except (RuntimeError, MemoryError) as error:
                    if not is_out_of_memory(error):
                        raise
                    if size == 1:
                        raise ModelError(
                            f"out of memory with a single text of {lengths[order[0]]} tokens: set truncation=cut:N."
                        ) from error
                gc.collect()
                free_memory()
                largest = (size + 1) // 2
        if batches >= MANY_BATCHES:
            free_memory()
