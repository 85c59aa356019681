"""Exact float32 arithmetic while scoring, without a lasting change of the caller's process.

Autocast and default dtype are overridden in the scoring thread only. The precision of float32 products is a setting of
the whole process; `ProcessSetting` changes it and puts it back.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import torch
from torch.overrides import TorchFunctionMode

Value = TypeVar("Value")

_LOCK = threading.RLock()


class ProcessSetting(Generic[Value]):
    """A process-wide setting that several threads may need at another value at once.

    The first thread stores the caller's value, the last thread restores it. If the caller changes the setting in
    between, `renew` stores the new value as the one to restore. In a forked process only the forking thread continues,
    so the loans of other threads end there.
    """

    def __init__(
        self, read: Callable[[], Value], write: Callable[[Value], object], peek: Callable[[], object] | None = None
    ) -> None:
        """Define the setting; nothing is changed yet.

        Args:
            read: Returns the present value.
            write: Sets a value that `read` returned, or the one that is wanted.
            peek: Returns what tells whether the value has changed, without a lock and in about a microsecond; by
                default `read`.
        """
        self._read, self._write, self._peek = read, write, peek or read
        self._expected: object = None
        self._loans: dict[object, int] = {}
        self._before: tuple[Value, Value] | None = None
        os.register_at_fork(after_in_child=self._release_other_threads)

    @contextlib.contextmanager
    def at(self, wanted: Value, fits: Callable[[Value], bool] | None = None) -> Iterator[None]:
        """Hold the setting at a value.

        Args:
            wanted: The value.
            fits: Returns whether the present value can stay; by default, whether it is `wanted`.
        """
        loan = object()
        try:
            with _LOCK:
                self._loans[loan] = threading.get_ident()
                present = self._read()
                if not (fits(present) if fits else present == wanted):
                    self._write(wanted)
                    self._before = present, self._read()
                self._expected = self._peek()
            yield
        finally:
            with _LOCK:
                self._loans.pop(loan, None)
                self._put_back()

    @property
    def has_changed(self) -> bool:
        """Whether the caller has changed the setting while a thread holds it."""
        return bool(self._loans) and self._peek() != self._expected

    def renew(self, wanted: Value) -> None:
        """Set the value again where the caller has changed it; the caller's new value is put back at the end."""
        with _LOCK:
            if self.has_changed:
                present = self._read()
                self._write(wanted)
                self._before, self._expected = (present, self._read()), self._peek()

    def _put_back(self) -> None:
        if self._loans or self._before is None:
            return
        before, ours = self._before
        if self._read() == ours:  # else the caller has changed it in between
            self._write(before)
        self._before = None

    def _release_other_threads(self) -> None:
        here = threading.get_ident()
        self._loans = {loan: thread for loan, thread in self._loans.items() if thread == here}
        self._put_back()


def _renew_lock() -> None:
    global _LOCK  # noqa: PLW0603 (a thread that does not exist after a fork may have held it)
    _LOCK = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)

Precisions = tuple[str | None, ...]
"""torch's setting for all float32 products (None where torch refuses to name it), then each operator's own."""

EXACT = ("none", "ieee")
_NEW_INTERFACE = hasattr(torch.backends, "fp32_precision")  # since torch 2.9
_OPERATORS = (("cuda", "matmul"), ("mkldnn", "matmul")) if _NEW_INTERFACE else ()


def _get(backend: str, operator: str) -> str:
    """Return the precision that applies: an operator's own, or else its backend's, or else the one of all backends."""
    return str(torch._C._get_fp32_precision_getter(backend, operator))  # noqa: SLF001 (no public name for cuda's)


def _set(backend: str, operator: str, precision: str) -> None:
    torch._C._set_fp32_precision_setter(backend, operator, precision)  # noqa: SLF001 (as above)


def _own(backend: str, operator: str) -> str:
    """Return an operator's own precision, "none" where it follows its parent's.

    torch returns the precision that applies, not where it is set; setting the parent to "ieee" for a moment shows it.
    """
    precision = _get(backend, operator)
    parent = ("generic", "all") if operator == "all" else (backend, "all")
    if backend == "generic" or precision in EXACT or _get(*parent) != precision:
        return precision
    of_parent = _own(*parent)
    _set(*parent, "ieee")
    follows = _get(backend, operator) == "ieee"
    _set(*parent, of_parent)
    return "none" if follows else precision


def _read_legacy() -> str | None:
    """Return the precision by torch's old interface; None where the caller has used the new one."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def _read_precisions() -> Precisions:
    """Read all settings; only with the lock held, since `_own` changes one for a moment."""
    return _read_legacy(), *(_own(*operator) for operator in _OPERATORS)


def _write_precisions(precisions: Precisions) -> None:
    legacy, *own = precisions
    if legacy is not None:
        torch.set_float32_matmul_precision(legacy)
    for operator, precision in zip(_OPERATORS, own, strict=True):
        _set(*operator, str(precision))


def _are_exact(precisions: Precisions) -> bool:
    return precisions[0] in {None, "highest"} and all(_get(*operator) in EXACT for operator in _OPERATORS)


def _exact_precisions() -> Precisions:
    """Return the exact settings in the interface that the caller uses, since torch refuses to mix its two."""
    return (None if _read_legacy() is None else "highest", *("ieee" for _ in _OPERATORS))


_FACTORIES = {torch.tensor, torch.zeros, torch.ones, torch.full, torch.empty, torch.arange, torch.linspace, torch.eye}


class _Float32Default(TorchFunctionMode):
    """Gives float32 where torch, in this thread, would give the caller's default dtype.

    This package names its dtypes; models of transformers divide integers (DeBERTa's buckets of positions), which
    bfloat16 rounds to other integers.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function, and again in float32 where only the default dtype has decided the result's."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not isinstance(result, torch.Tensor) or result.dtype != torch.get_default_dtype() or "dtype" in kwargs:
            return result
        if func in _FACTORIES:
            return func(*args, **kwargs, dtype=torch.float32)
        integers = [isinstance(arg, torch.Tensor) and not arg.is_floating_point() for arg in args]
        if any(integers) and not any(isinstance(arg, torch.Tensor) and arg.is_floating_point() for arg in args):
            return func(
                *(arg.to(torch.float32) if integer else arg for arg, integer in zip(args, integers, strict=True)),
                **kwargs,
            )
        return result


def _peek() -> tuple[object, ...]:
    return _read_legacy(), *(_get(*operator) for operator in _OPERATORS)


_PRODUCTS = ProcessSetting(_read_precisions, _write_precisions, _peek)


@contextlib.contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Compute float32 in float32: no TF32, no bfloat16, no autocast, no other default dtype or device of the caller."""
    with (
        _PRODUCTS.at(_exact_precisions(), _are_exact),
        contextlib.nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu"),
        contextlib.nullcontext() if torch.get_default_dtype() is torch.float32 else _Float32Default(),
        torch.autocast("cuda", enabled=False),
        torch.autocast("cpu", enabled=False),
    ):
        yield


def keep_exact() -> None:
    """Set the precision of products again where another thread has changed it since `exact_arithmetic` began; before a
    product.

    Costs about a microsecond. Only a product that is under way when the change is made can be less exact.
    """
    if _PRODUCTS.has_changed:
        _PRODUCTS.renew(_exact_precisions())
