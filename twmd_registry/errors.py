"""Errors and warnings of this package. Each error is also a subclass of the built-in exception that callers expect."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from numbers import Integral, Real
from types import NoneType
from typing import Any, ParamSpec, TypeVar, get_args

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_MESSAGE = 2000
"""Longest error to show; the input may be a file of any length."""


class TwmdError(Exception):
    """Root of every error raised by this package."""

    def __str__(self) -> str:
        """Return the message. A very long one is cut in the middle, because its end has the remedy."""
        text = super().__str__()
        half = LONGEST_MESSAGE // 2
        return text if len(text) <= LONGEST_MESSAGE else f"{text[:half]} [...] {text[-half:]}"


class InputError(TwmdError, ValueError):
    """Texts that cannot be scored: wrong number, wrong type, not Unicode. Names the row."""


class ArgumentError(TwmdError, TypeError):
    """An argument of the wrong type. Names the argument."""


_KINDS: dict[Any, str] = {
    Integral: "a whole number",
    Real: "a number",
    bool: "True or False",
    str: "a text",
    Iterable: "a list",
    Mapping: "a dict",
    Callable: "a function",
    NoneType: "None",
}


def shown(value: object, longest: int = 60) -> str:
    """Write a value for a message, cut if it is long. Python does not write an integer of thousands of digits."""
    try:
        text = repr(value)
    except ValueError:
        text = f"<{type(value).__name__} of thousands of digits>"
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def check_types(**kinds: Any) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a function refuse arguments whose types differ from these, by name (`ArgumentError`).

    Here, True and False are not numbers, and a text is not a list.
    """
    allowed = {name: get_args(kind) or (kind,) for name, kind in kinds.items()}

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        names = function.__code__.co_varnames

        @wraps(function)
        def checked(*args: P.args, **keys: P.kwargs) -> T:
            for name, value in {**dict(zip(names, args, strict=False)), **keys}.items():
                strict = next((kind for kind in (bool, str, bytes) if isinstance(value, kind)), None)
                if name in allowed and not (strict in allowed[name] if strict else isinstance(value, allowed[name])):
                    expected = " or ".join(_KINDS.get(kind, kind.__name__) for kind in allowed[name])
                    raise ArgumentError(f"{name} must be {expected}; got {type(value).__name__} {shown(value)}.")
            return function(*args, **keys)

        return checked

    return decorate


class SpecError(TwmdError, ValueError):
    """A metric, preset, key or value that does not exist or does not fit its metric."""


class SignatureError(SpecError):
    """A string that is not a signature of this package."""


class ModelError(TwmdError, OSError):
    """A model, adapter or mean vector that is missing, unsafe to load, or not the one that was named."""


class NotFiniteError(ModelError):
    """A model that produces numbers that are not finite."""


class MissingExtraError(TwmdError, ImportError):
    """An optional dependency that is not installed; the message has the install command."""


def missing_extra(what: str, extra: str) -> MissingExtraError:
    """Return the error for an optional dependency that is not installed."""
    return MissingExtraError(f"{what}: {install_command(extra)}")


def pip_install(*arguments: str) -> str:
    """Return the command that installs packages into this environment, which may be pipx's or uv's.

    >>> pip_install("peft", "matplotlib>=3.8").endswith(" peft 'matplotlib>=3.8'")
    True
    """
    import shlex
    import sys
    from importlib import util
    from pathlib import Path

    if Path(sys.prefix, "pipx_metadata.json").is_file():
        command = "pipx runpip twmd-registry install"
    elif util.find_spec("pip") is None:
        command = f"uv pip install --python {shlex.quote(sys.prefix)}"
    else:
        command = "pip install"
    return f"{command} {shlex.join(arguments)}"


def _origin() -> dict[str, Any]:
    """Return where this package was installed from, as in ``direct_url.json``; empty for an index."""
    import json
    from importlib import metadata
    from pathlib import Path

    try:
        origin: dict[str, Any] = json.loads(metadata.distribution("twmd-registry").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:  # a checkout on the path
        origin = {"url": Path(__file__).resolve().parents[1].as_uri()}
    return origin


def requirement(extra: str) -> str:
    """Return this package with an extra as a line of ``requirements.txt``, with its address if it does not come from an
    index.
    """
    origin = _origin()
    url, repository = str(origin.get("url", "file:")), origin.get("vcs_info")
    if repository:
        url = f"{repository['vcs']}+{url}@{repository['commit_id']}"
    return f"twmd-registry[{extra}]" + ("" if url.startswith("file:") else f" @ {url}")


def install_command(extra: str) -> str:
    """Return the command that installs this package with an extra from its origin: a checkout, wheel, repository or
    index. If the origin is gone, the command installs the extra's requirements.

    >>> "install" in install_command("plots")
    True
    """
    import re
    from importlib import metadata
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    origin = _origin()
    if not str(origin.get("url", "")).startswith("file:"):
        return pip_install(requirement(extra))
    place = Path(url2pathname(urlsplit(origin["url"]).path))
    if place.exists():
        editable = ["-e"] if origin.get("dir_info", {}).get("editable") else []
        return pip_install(*editable, f"{place}[{extra}]")
    needed = metadata.distribution("twmd-registry").requires or []
    return pip_install(*(line.partition(";")[0].strip() for line in needed if re.search(rf"extra == .{extra}\b", line)))


class FileError(TwmdError, OSError):
    """An input file that is missing, empty, not UTF-8 or of the wrong length."""


def not_utf8(name: object, error: UnicodeDecodeError) -> FileError:
    """Return the error for a file that is not UTF-8, given the error of decoding its whole content."""
    formats = {
        b"PAR1": "a Parquet file: add the suffix .parquet",
        b"\x1f\x8b": "compressed: add the suffix .gz, or unpack it",
        b"BZh": "compressed by bzip2: unpack it, or compress it by gzip or xz",
        b"\x28\xb5\x2f\xfd": "compressed by zstd: unpack it, or compress it by gzip or xz",
        b"PK\x03\x04": "a ZIP archive, as Excel writes too: unpack it, or save the sheet as CSV",
        b"\x80": "a pickle, which is never read: save its texts as JSON lines",
    }
    for start, advice in formats.items():
        if error.object.startswith(start):
            return FileError(f"{name} is {advice}.")
    line = error.object.count(b"\n", 0, error.start) + 1
    return FileError(f"{name} is not UTF-8: byte 0x{error.object[error.start]:02x} in line {line}. Convert it first.")


def refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise ValueError for a repeated key, because Python's reader keeps only the last."""
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"{key!r:.40} occurs twice")
        table[key] = value
    return table


_NO_MEMORY = (
    *("DefaultCPUAllocator", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED"),
    *("annot allocate memory", "failed to map segment", "bad_alloc", "can't start new thread"),
)
"""Phrases of out-of-memory errors without a type of their own: torch on CPUs, on Apple's GPUs and in driver
calls; CUDA; memory-mapped files; loading libraries; C++; stacks of threads.
"""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error of Python, numpy or torch, or its cause, is a lack of memory, without importing torch."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    is_plain = isinstance(error, RuntimeError | ImportError | OSError | SystemError)
    if is_plain and (type(error).__name__ == "OutOfMemoryError" or any(words in str(error) for words in _NO_MEMORY)):
        return True
    return error.__cause__ is not None and is_out_of_memory(error.__cause__)


class TwmdWarning(UserWarning):
    """Root of every warning, about empty or cut texts, untuned settings or solvers that stopped early."""
