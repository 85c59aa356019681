"""Records as JSON files: written whole or not at all, read as untrusted data."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from twmd_registry.errors import FileError, not_utf8
from twmd_registry.record.content import Record, RecordedSystem, SystemScore
from twmd_registry.registry.paths import write_file

FORMAT = "twmd-record"
DATASET_FORMAT = "twmd-dataset-record"
FORMAT_VERSION = 2
READABLE = (1, 2)
"""Version 1 had no metrics of SacreBLEU, no tests and no intervals."""
LARGEST = 1 << 29
"""Bytes of a file that are read, some 20 million scores: what somebody else wrote must not fill the memory."""
RESULT = ("signature", "keys", "counts", "score", "sides", "scores", "mean", "ci", "p_value", "accuracy", "documents")
MAY_LACK = {"mean", "ci", "p_value", "accuracy", "test", "resampling", "references", "documents"}


def record_text(record: Record) -> str:
    """Write a record as JSON, numbers in their shortest exact form."""
    content: dict[str, Any] = {"format": FORMAT, "format_version": FORMAT_VERSION} | asdict(record)
    del content["edited"]
    content["inputs"] = [file._asdict() for file in record.inputs]
    for system in content["systems"]:
        for result in system["results"]:
            result["accuracy"] = result["accuracy"] and result["accuracy"]._asdict()
            result["documents"] = {name: document.as_dict() for name, document in result["documents"].items()} or None
        system["results"] = [
            {name: result[name] for name in RESULT if result[name] is not None} for result in system["results"]
        ]
    for name in ("resampling", "documents"):
        if not content[name]:
            del content[name]
    return json.dumps(content | {"sha256": digest_of(content)}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def digest_of(content: dict[str, Any]) -> str:
    """Return the sha256 of a record's content without its own digest."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def write_record(record: Record, path: str | Path) -> None:
    """Write a record through a temporary file and a rename; raises FileError where the file cannot be written."""
    # A name that is not UTF-8 holds lone surrogates, which JSON writes as escapes.
    write_file(Path(path), record_text(record).encode("utf-8", "backslashreplace"))


def check_target(path: Path, inputs: Sequence[Path] = ()) -> None:
    """Raise FileError where a file to write is one of the inputs, or something else than a file."""
    if path.exists() and not path.is_file():
        raise FileError(f"cannot write {path}: it is no regular file; name another.")
    if any(path.exists() and given.exists() and path.samefile(given) for given in inputs):
        raise FileError(f"cannot write {path}: it is one of the files to read.")


def check_writable(path: Path) -> None:
    """Raise FileError where a file cannot be written, or has no folder; leaves no trace."""
    if not path.parent.is_dir():
        here = next(parent for parent in path.absolute().parents if parent.exists())
        why = f"there is no folder {path.parent}" if here.is_dir() else f"{here} is a file, not a folder"
        raise FileError(f"cannot write {path}: {why}.")
    try:
        with tempfile.TemporaryFile(dir=path.resolve().parent):
            pass
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}.") from error
    if path.exists() and not os.access(path, os.W_OK):
        raise FileError(f"cannot write {path}: Permission denied.")


def read_record(path: str | Path) -> Record:
    """Read a record; raises FileError, which names the place in it, for a file that is none, or cannot be read."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(1)
            content = head + file.read(LARGEST if head in b"{[ \t\r\n" else 1000)
        return parse_record(content.decode())
    except (UnicodeDecodeError, FileError) as error:
        why = not_utf8("it", error) if isinstance(error, UnicodeDecodeError) else error
        raise FileError(f"{path} is not a record of this package: {why}") from error
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}.") from error


def parse_record(text: str) -> Record:
    """Read a record from its JSON text; raises FileError, which names the place in it, if it is none."""
    if len(text) > LARGEST:
        raise FileError(f"it has more than {LARGEST >> 20} MB.")
    try:
        table = json.loads(text, object_pairs_hook=refuse_repeated_keys)
    except RecursionError as error:
        raise FileError("it is nested too deeply.") from error
    except ValueError as error:
        raise FileError(f"not JSON ({error}); it may be cut off.") from error
    _check(table, dict, "record")
    for name, known in (("format", (FORMAT,)), ("format_version", READABLE)):
        if table.get(name) not in known or isinstance(table[name], bool | float):
            expected = " or ".join(map(json.dumps, known))
            raise FileError(f'expected {expected} as "{name}", not {_shown(table.get(name))}.')
    record: Record = _read(Record, table, "record")
    resampling = record.resampling
    if resampling and (
        min(resampling.samples, resampling.resamples, resampling.seed) < 0
        or (resampling.test and not resampling.samples)
    ):
        raise FileError("record.resampling: expected numbers from 0, and samples of a test.")
    for i, system in enumerate(record.systems):
        for k, result in enumerate(system.results):
            if not result.scores and not result.is_lexical:
                raise FileError(f"record.systems[{i}].results[{k}].scores is empty.")
    return replace(record, edited=_read(str, table.get("sha256"), "record.sha256") != digest_of(table))


def _read(kind: Any, value: Any, where: str) -> Any:
    """Return a value of JSON as a type that a record consists of; raises FileError with the place if it has another."""
    if kind in _KINDS:
        _check(value, kind, where)
        return float(value) if kind is float else value
    outer, inner = get_origin(kind), get_args(kind)
    if outer is UnionType:  # of None and a type: a record does not have fields that are None
        return _read(inner[0], value, where)
    if outer is Literal:
        if value not in inner:
            raise FileError(f"{where} must be {', '.join(map(json.dumps, inner))}, not {_shown(value)}.")
        return value
    if outer is tuple:
        _check(value, list, where)
        if not value and inner[0] in (RecordedSystem, SystemScore):
            raise FileError(f"{where} is empty.")
        return tuple(_read(inner[0], entry, f"{where}[{i}]") for i, entry in enumerate(value))
    _check(value, dict, where)
    if outer is dict:
        return {key: _read(inner[1], entry, f"{where}.{key}") for key, entry in value.items()}
    # Records without documents are read without numpy.
    result = import_module("twmd_registry.engine.result") if "documents" in value else None
    types = get_type_hints(kind, localns={"DocumentScore": getattr(result, "DocumentScore", object)})
    types.pop("edited", None)  # which no file says of itself
    fields = {}
    for name in RESULT if kind is SystemScore else types:
        if name in value:
            fields[name] = _read(types[name], value[name], f"{where}.{name}")
        elif name not in MAY_LACK:
            raise FileError(f"{where} has no {name}: it was cut off or edited.")
    return kind(**fields)


_KINDS: dict[type, tuple[tuple[type, ...], str]] = {
    dict: ((dict,), "an object"),
    list: ((list,), "a list"),
    str: ((str,), "a text"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a finite number"),
}


def _check(value: Any, kind: type, where: str) -> None:
    allowed, name = _KINDS[kind]
    is_right = isinstance(value, allowed) and not isinstance(value, bool)
    if is_right and isinstance(value, int | float):
        try:
            is_right = math.isfinite(value)
        except OverflowError:  # a whole number of hundreds of digits
            is_right = False
    if not is_right:
        raise FileError(f"{where} must be {name}, not {_shown(value)}.")


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."


def refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; raises ValueError if a key comes twice, of which Python's reader takes the last."""
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"{_shown(key)} comes twice")
        table[key] = value
    return table
