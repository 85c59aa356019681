"""A `Record`: scores with everything needed to recompute them, as values and as a JSON file.

Files are written atomically and read as untrusted data.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from numbers import Real
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from twmd_registry.comparison.cells import EXTERNAL, MetricColumn, Resampling, SystemScore, column_of
from twmd_registry.comparison.verdict import SystemComparison
from twmd_registry.errors import FileError, InputError, check_types, not_utf8, refuse_repeated_keys, shown
from twmd_registry.registry.paths import write_file
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.version import __version__

if TYPE_CHECKING:  # imports numpy and torch, which reading a record does not need
    from twmd_registry.engine.result import ScoreSet

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "POT", "peft", "sacrebleu")
"""Libraries whose versions may move a score within its tolerance."""


class InputFile(NamedTuple):
    """An input file: its role (``predictions`` or ``references``) and its name without the folder."""

    role: str
    name: str
    sha256: str


@dataclass(frozen=True)
class RecordedSystem:
    """One system; `texts` is the sha256 of its texts and references as scored (`ScoreSet.texts`)."""

    name: str
    texts: str
    results: tuple[SystemScore, ...]


@dataclass(frozen=True)
class Record:
    """The content of a record file, as written by ``twmd score --record``.

    Attributes:
        created: Time of writing, in UTC, ISO 8601.
        inputs: The files, if texts came from files.
        systems: The systems; in a comparison, the baseline comes first.
        environment: Versions, device, threads.
        seconds: Wall time of scoring, with model loading.
        resampling: The test and the intervals; None without them.
        references: sha256 of all systems' references, by `digest_of_texts` without predictions; empty if unknown.
        documents: The document of every segment, if known.
        edited: Whether the file was edited after it was written.
    """

    created: str
    inputs: tuple[InputFile, ...]
    systems: tuple[RecordedSystem, ...]
    environment: dict[str, str]
    seconds: float
    resampling: Resampling | None = None
    references: str = ""
    documents: tuple[str, ...] = ()
    edited: bool = False


@check_types(results=Iterable, inputs=Iterable, references=Iterable, seconds=Real, comparison=SystemComparison | None)
def make_record(
    results: Sequence[tuple[str, Sequence[ScoreSet]]],
    *,
    inputs: Sequence[InputFile] = (),
    references: Sequence[Sequence[str]] = (),
    seconds: float,
    device: str = "auto",
    comparison: SystemComparison | None = None,
) -> Record:
    """Create a record of this machine's scores.

    Args:
        results: Names of systems with their score sets.
        inputs: The files.
        references: The references of every segment, if all systems share them.
        seconds: Wall time of scoring.
        device: The device, as in `RunOptions`.
        comparison: The published table of these systems, with a column per score set and per SacreBLEU metric.

    Returns:
        The record, with the versions and device of this machine.

    Raises:
        InputError: Results, references or seconds of the wrong form.
        ArgumentError: An argument of the wrong type.
    """
    from twmd_registry.engine.pairs import Segments, check_rows, digest_of_texts
    from twmd_registry.engine.result import ScoreSet

    if not math.isfinite(seconds) or seconds < 0:
        raise InputError(f"seconds must be a non-negative number; got {seconds}.")
    texts = check_rows(references, "references", nested=True)
    if any(isinstance(row, str) for row in texts):
        raise InputError("references must be a list of texts for every segment; got a text.")
    results = list(results)
    for pair in results:
        sets = pair[1] if isinstance(pair, tuple | list) and len(pair) == 2 else ()
        if not sets or not all(isinstance(scores, ScoreSet) for scores in sets):
            raise InputError("results must be pairs of a system's name and its score sets.")
    systems = []
    for i, (name, sets) in enumerate(results):
        columns = comparison.columns if comparison else tuple(map(column_of, sets))
        cells = [(column, column.cells[i if comparison else 0]) for column in columns]
        recorded = tuple(_recorded(column, cell, len(sets[0].scores)) for column, cell in cells)
        systems.append(RecordedSystem(name, sets[0].texts, recorded))
    return Record(
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        inputs=tuple(inputs),
        systems=tuple(systems),
        environment=environment(device),
        seconds=round(seconds, 3),
        resampling=comparison.resampling if comparison else None,
        references=digest_of_texts(Segments([], texts)) if texts else "",
        documents=comparison.documents if comparison else (),
    )


def _recorded(column: MetricColumn, cell: SystemScore, segments: int) -> SystemScore:
    signature = column.long_signature or column.signature
    if column.hundred or signature.startswith(EXTERNAL):  # SacreBLEU's or another program's
        return replace(cell, signature=signature, counts={"segments": segments}, resampled=())
    return replace(cell, signature=signature, keys=spec_keys(parse_signature(signature)), resampled=())


def spec_keys(signature: Signature) -> dict[str, str]:
    """Return all fields of a signature as strings."""
    spec = signature.spec
    facts = {"fingerprint": spec.fingerprint, "nrefs": signature.nrefs, "bs": signature.bs, "ar": signature.ar}
    facts["seed"] = signature.seed
    known = {name: str(value) for name, value in facts.items() if value is not None}
    return {"metric": str(spec.metric), **spec.texts(), **known, "version": signature.version}


def environment(device: str = "auto") -> dict[str, str]:
    """Return versions, device and threads as strings. Nothing identifies a person or machine."""
    from importlib import metadata  # slow to import, and not needed to read a record

    import torch

    from twmd_registry.models.load import pick_device

    versions = {"twmd-registry": __version__}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    picked = pick_device(device)
    return versions | {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": f"cuda ({torch.cuda.get_device_name(picked)})" if picked.type == "cuda" else picked.type,
        "threads": str(torch.get_num_threads()),
    }


FORMAT = "twmd-record"
FORMAT_VERSION = 1
MAX_BYTES = 1 << 29
"""Largest file to read, some 20 million scores. A stranger's file must not fill the memory."""
RESULT = ("signature", "keys", "hashes", "counts", "score", "sides", "scores", "mean", "ci", "p_value", "documents")
MAY_LACK = {"mean", "ci", "p_value", "resampling", "documents"}


def record_text(record: Record) -> str:
    """Write a record as JSON, with numbers in their shortest exact form."""
    content: dict[str, Any] = {"format": FORMAT, "format_version": FORMAT_VERSION} | asdict(record)
    del content["edited"]
    content["inputs"] = [file._asdict() for file in record.inputs]
    for system in content["systems"]:
        for result in system["results"]:
            result["documents"] = {name: document.as_dict() for name, document in result["documents"].items()} or None
        kept = ({name: result[name] for name in RESULT} for result in system["results"])
        system["results"] = [{name: value for name, value in one.items() if value is not None} for one in kept]
    for name in ("resampling", "documents"):
        if not content[name]:
            del content[name]
    return json.dumps(content | {"sha256": digest_of(content)}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def digest_of(content: dict[str, Any]) -> str:
    """Return the sha256 of a record's content without its own digest."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


@check_types(record=Record, path=str | PathLike)
def write_record(record: Record, path: str | Path) -> None:
    """Write a record atomically; raise FileError if that fails."""
    # A file name that is not UTF-8 has lone surrogates, which JSON escapes.
    write_file(Path(path), record_text(record).encode("utf-8", "backslashreplace"))


@check_types(path=str | PathLike)
def read_record(path: str | Path) -> Record:
    """Read a record; raise FileError, with the location of the problem, if it is damaged or unreadable."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(1)
            content = head + file.read(MAX_BYTES if head in b"{[ \t\r\n" else 1000)
        return parse_record(content.decode())
    except (UnicodeDecodeError, FileError) as error:
        why = not_utf8("it", error) if isinstance(error, UnicodeDecodeError) else error
        raise FileError(f"{path} is not a record of this package: {why}") from error
    except (OSError, ValueError) as error:  # a name with NUL is a ValueError
        raise FileError(f"{path!s:.200}: {getattr(error, 'strerror', None) or error}.") from error


def parse_record(text: str) -> Record:
    """Read a record from JSON; raise FileError, with the location of the problem, if it is not a record."""
    if len(text) > MAX_BYTES:
        raise FileError(f"it has more than {MAX_BYTES >> 20} MB.")
    try:
        table = json.loads(text, object_pairs_hook=refuse_repeated_keys)
    except RecursionError as error:
        raise FileError("it is nested too deeply.") from error
    except json.JSONDecodeError as error:
        raise FileError(f"not JSON ({error}); it may be cut off.") from error
    except ValueError as error:  # a repeated key, or a number that is too long
        raise FileError(f"{str(error).partition(':')[0]}.") from error
    _check(table, dict, "record")
    for name, known in (("format", FORMAT), ("format_version", FORMAT_VERSION)):
        if table.get(name) != known or isinstance(table[name], bool | float):
            raise FileError(f'expected {json.dumps(known)} as "{name}", not {shown(table.get(name))}.')
    record: Record = _read(Record, table, "record")
    resampling = record.resampling
    if resampling and (
        min(resampling.samples, resampling.resamples, resampling.seed) < 0
        or (resampling.test and not resampling.samples)
    ):
        raise FileError("record.resampling: expected no negative numbers, and samples for a test.")
    for i, system in enumerate(record.systems):
        for k, result in enumerate(system.results):
            if not result.scores and not result.is_lexical:
                raise FileError(f"record.systems[{i}].results[{k}].scores is empty.")
    return replace(record, edited=_read(str, table.get("sha256"), "record.sha256") != digest_of(table))


def _read(target: Any, value: Any, where: str) -> Any:
    """Convert a JSON value to a type used in records; raise FileError with its location if it does not fit."""
    if target in _JSON_TYPES:
        _check(value, target, where)
        return float(value) if target is float else value
    outer, inner = get_origin(target), get_args(target)
    if outer is UnionType:  # X | None: records leave out fields that are None
        return _read(inner[0], value, where)
    if outer is Literal:
        if value not in inner:
            raise FileError(f"{where} must be {', '.join(map(json.dumps, inner))}, not {shown(value)}.")
        return value
    if outer is tuple:
        _check(value, list, where)
        if not value and inner[0] in (RecordedSystem, SystemScore):
            raise FileError(f"{where} is empty.")
        return tuple(_read(inner[0], entry, f"{where}[{i}]") for i, entry in enumerate(value))
    _check(value, dict, where)
    if outer is dict:
        return {key: _read(inner[1], entry, f"{where}.{key}") for key, entry in value.items()}
    # Reading records without documents does not import numpy.
    result = import_module("twmd_registry.engine.result") if "documents" in value else None
    types = get_type_hints(target, localns={"DocumentScore": getattr(result, "DocumentScore", object)})
    types.pop("edited", None)  # not stored in the file
    fields = {}
    for name in RESULT if target is SystemScore else types:
        if name in value:
            fields[name] = _read(types[name], value[name], f"{where}.{name}")
        elif name not in MAY_LACK:
            raise FileError(f"{where} has no {name}: it was cut off or edited.")
    return target(**fields)


_JSON_TYPES: dict[type, tuple[tuple[type, ...], str]] = {
    dict: ((dict,), "an object"),
    list: ((list,), "a list"),
    str: ((str,), "a text"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a finite number"),
}


def _check(value: Any, target: type, where: str) -> None:
    allowed, name = _JSON_TYPES[target]
    is_right = isinstance(value, allowed) and not isinstance(value, bool)
    if is_right and isinstance(value, int | float):
        try:
            is_right = math.isfinite(value)
        except OverflowError:  # an integer with hundreds of digits
            is_right = False
    if not is_right:
        raise FileError(f"{where} must be {name}, not {shown(value)}.")
