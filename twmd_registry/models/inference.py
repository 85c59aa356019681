"""`LoadedModel`: runs a network on many texts, in exact float32, in batches that fit into memory."""

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
"""Batches after which enough free memory is scattered between used parts (100 to 180 MB) to return it to the system."""
X86 = ("x86_64", "amd64")
OPERATORS = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
# oneDNN, and torch's layer above it, keep code for 1,024 products each, nearly 1 MB per new shape of a product.
for _variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_variable, "32")

_LOCK, LOADING = threading.RLock(), threading.RLock()
"""Held while settings of the process change, and while a model is loaded."""
LOADED = weakref.WeakValueDictionary[Hashable, Any]()
"""Loaded models, one per process and `Backend.model_key`, while a backend refers to them."""


_OPERATORS = (("cuda", "matmul"), ("mkldnn", "matmul")) if hasattr(torch.backends, "fp32_precision") else ()
"""Operators with their own precision, since torch 2.9."""
_HOLDERS = set[object]()
"""Blocks that currently compute exactly."""
_UNDO: list[partial[Any]] = []
"""Calls that restore the caller's default dtype and precisions."""
_FORKED = False
"""Whether this process was forked after loading this module."""


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
            del LOADED[key]  # it may have been in the middle of a layer; its backend loads it again


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_after_fork)


@contextlib.contextmanager
def _usable_threads() -> Iterator[None]:
    """Use a single thread in a forked process.

    OpenMP's threads stay in the parent if it has used torch, and the first parallel operator would wait for them
    forever.
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
    """Compute float32 in float32: no TF32, bfloat16 or autocast, whatever the caller's default dtype and device.

    Default dtype and precision are settings of the whole process. The first of several threads saves and replaces them,
    and the last one restores them. torch's old interface fails to report a precision if the caller uses the new one, in
    which an operator may inherit its backend's.
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
                    current, parent = (torch._C._get_fp32_precision_getter(backend, name) for name in (operator, "all"))
                    change = partial(torch._C._set_fp32_precision_setter, backend, operator)
                    _UNDO.append(partial(change, "none" if current == parent else current))
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
    """Free cached device memory, and return free main memory to the system.

    Only glibc keeps free memory between used parts.
    """
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


class OneDnnLinear(nn.Linear):
    """``nn.Linear`` that multiplies with oneDNN outside of training.

    torch multiplies float32 with MKL, which reaches 180 billion operations per second on two cores of an AMD EPYC.
    oneDNN reaches 400. It needs weights in its own order, which torch otherwise computes for every product, in
    bfloat16 too. While `keeps` is set, the first product's order is reused. Parameters and results equal
    ``nn.Linear``'s, up to the order of sums.
    """

    keeps = False
    kept: Tensor | None = None

    def reset_parameters(self) -> None:
        """Skip random initialisation, because weights are always loaded."""

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
        # oneDNN's own GELU saves a pass over memory, and in bfloat16 a rounding step. With AVX2, torch's is faster.
        fused = gelu and torch.backends.cpu.get_cpu_capability() != "AVX2"
        after = ("gelu", "none") if fused else ("none", "")
        result: Tensor = torch.ops.mkldnn._linear_pointwise(input, weights, self.bias, after[0], [], after[1])
        if gelu and not fused:
            torch.ops.aten.gelu_(result)
        return result


@cache
def multiplies(dtype: torch.dtype = torch.float32) -> bool:
    """Return whether torch has oneDNN for this CPU and multiplies a number format well with it.

    oneDNN also takes bfloat16 on CPUs with only AVX-512, but needs twice the time of float32.
    """
    built = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    if not built or platform.machine().lower() not in X86 or not all(hasattr(torch.ops.mkldnn, op) for op in OPERATORS):
        return False
    if dtype != torch.bfloat16:
        return dtype == torch.float32
    instructions = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)  # torch 2.5 does not tell
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()) and bool(instructions())


def use_onednn(network: nn.Module) -> None:
    """Let a network's linear layers multiply with oneDNN, if torch has it."""
    if not multiplies():
        return
    for module in network.modules():
        if type(module) is nn.Linear:
            module.__class__ = OneDnnLinear


@contextlib.contextmanager
def keep_order(network: nn.Module) -> Iterator[None]:
    """Keep weights in oneDNN's order between products, which takes a copy of them; they must not change inside."""
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
    lock: Any  # Hold it while the network is used
    files: ModelFiles
    dtype: str  # Name of the number format
    limit: int | None  # Maximum tokens it can read, with special tokens; None for no limit
    shortest: int  # The smallest limit that leaves room for text in addition to special tokens
    parked = False  # Whether it waits in main memory
    static = False  # Whether it is a table of word vectors, which leaves out unknown words

    def check_limit(self, requested: int | None) -> int | None:
        """Return the requested length limit, or the model's own.

        Raises:
            SpecError: The limit exceeds what the model can read, or leaves no room for text.
        """
        if requested is None:
            return self.limit
        if self.limit is not None and requested > self.limit:
            limit_hint = f"{self.files.name} reads at most {self.limit} tokens. Set truncation=cut:{self.limit}"
            raise SpecError(f"truncation to {requested} tokens is out of range: {limit_hint}.")
        if requested < self.shortest:
            minimum_hint = f"expected at least {self.shortest}"
            raise SpecError(
                f"truncation to {requested} tokens leaves no room for text besides special tokens: {minimum_hint}."
            )
        return requested

    def place(self, network: Any) -> Any:
        """Return a network on the device, in evaluation mode.

        A CPU that lacks its number format computes in float32, with the rounded weights. Torch would compute up to nine
        times as long there.
        """
        network = network.to(self.device).eval()
        lacking = self.device.type == "cpu" and not multiplies(getattr(torch, self.dtype))
        return network.float() if lacking else network

    def park(self) -> None:
        """Move the network to main memory and free device memory. The next use moves it back."""
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
        """Call `forward` with the numbers of the texts of every batch. The lock must be held.

        A batch has texts of similar length (of equal length unless `pads`), the longest first, so insufficient
        memory shows at once. It has at most `batch_tokens` padded tokens (None picks a number for the device), unless a
        single text is longer. Batches that run out of memory are halved. A parked network is moved to its device.

        Raises:
            ModelError: Not even one text fits into memory.
            NotFiniteError: Numbers are not finite, because the model is damaged or the dtype's range too small.
        """
        if self.parked:
            self.network.to(self.device)
            self.parked = False
        max_tokens = batch_tokens or (CPU_TOKENS if self.device.type == "cpu" else ACCELERATOR_TOKENS)
        order, largest, batches = np.argsort(-lengths, kind="stable"), len(lengths), 0
        with keep_order(self.network):
            while len(order):
                size = min(max(max_tokens // max(int(lengths[order[0]]), 1), 1), largest, len(order))
                if not pads:
                    size = min(size, int((lengths[order] == lengths[order[0]]).sum()))
                try:
                    # A sum that is finite proves it ten times faster, but may overflow.
                    if all(bool(x.sum().isfinite() or x.isfinite().all()) for x in forward(order[:size])):
                        order, batches = order[size:], batches + 1
                        continue
                    cause = "its weights are damaged"
                    if self.dtype != "float32":
                        cause = f"dtype={self.dtype} may be too small for it: try float32"
                    raise NotFiniteError(f"model {self.files.label} gives numbers that are not finite; {cause}.")
                except (RuntimeError, MemoryError) as error:
                    if not is_out_of_memory(error):
                        raise
                    if size == 1:
                        single = f"a single text of {lengths[order[0]]} tokens"
                        raise ModelError(f"out of memory with {single}: set truncation=cut:N.") from error
                gc.collect()
                free_memory()
                largest = (size + 1) // 2
        if batches >= MANY_BATCHES:
            free_memory()
