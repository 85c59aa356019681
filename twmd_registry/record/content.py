"""A `Record`: scores with everything that it takes to compute them again, as values and as a
JSON file, which is written whole or not at all, and read as untrusted data.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from twmd_registry.comparison.cells import EXTERNAL, MetricColumn, Resampling, SystemComparison, SystemScore, column_of
from twmd_registry.errors import FileError, not_utf8, refuse_repeated_keys
from twmd_registry.registry.paths import write_file
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.version import __version__

if TYPE_CHECKING:  # they need numpy and torch, which reading a record does not
    from twmd_registry.engine.result import ScoreSet

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "POT", "peft", "sacrebleu")
"""Libraries whose version may move a score within its tolerance."""


class InputFile(NamedTuple):
    """A file that was scored: its role, ``predictions`` or ``references``, and its name without its folder."""

    role: str
    name: str
    sha256: str


@dataclass(frozen=True)
class RecordedSystem:
    """One system; `texts` is the sha256 of its texts and their references as they were scored (`ScoreSet.texts`)."""

    name: str
    texts: str
    results: tuple[SystemScore, ...]


@dataclass(frozen=True)
class Record:
    """The content of a record file, as `twmd score --record` writes it.

    Attributes:
        created: When, in UTC, ISO 8601.
        inputs: The files, when texts came from files.
        references: sha256 of the references of all systems, by `digest_of_texts` without predictions; empty where they
            are not known.
        systems: The systems, the first of them the baseline where systems are compared.
        environment: Versions, device, threads.
        seconds: Wall time of scoring, model loading included.
        resampling: The test and the intervals; None where there were none.
        documents: The document of every segment, if known.
        edited: Whether it was read from a file that was changed after it had been written.
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


def make_record(
    results: Sequence[tuple[str, Sequence[ScoreSet]]],
    *,
    inputs: Sequence[InputFile] = (),
    references: Sequence[Sequence[str]] = (),
    seconds: float,
    device: str = "auto",
    comparison: SystemComparison | None = None,
) -> Record:
    """Make a record of systems' names, each with its score sets, with this machine's versions and device, made now.

    References are of every segment, where all systems have the same; `comparison` is the published table of these
    systems: a column for each of the score sets, and one for each metric of SacreBLEU.
    """
    from twmd_registry.engine.pairs import Segments, digest_of_texts

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
        references=digest_of_texts(Segments([], list(map(list, references)))) if references else "",
        documents=comparison.documents if comparison else (),
    )


def _recorded(column: MetricColumn, cell: SystemScore, segments: int) -> SystemScore:
    """Return a cell of a comparison as a record holds it."""
    signature = column.long_signature or column.signature
    if column.hundred or signature.startswith(EXTERNAL):  # SacreBLEU's own, or another program's
        return replace(cell, signature=signature, counts={"segments": segments}, resampled=())
    return replace(cell, signature=signature, keys=spec_keys(parse_signature(signature)), resampled=())


def spec_keys(signature: Signature) -> dict[str, str]:
    """Return everything that a signature says, as text."""
    spec = signature.spec
    counts = {name: getattr(signature, name) for name in ("nrefs", "bs", "ar", "seed")}
    known = {
        name: str(value) for name, value in {"fingerprint": spec.fingerprint, **counts}.items() if value is not None
    }
    return {"metric": str(spec.metric), **spec.texts(), **known, "version": signature.version}


def environment(device: str = "auto") -> dict[str, str]:
    """Return versions, device and threads as text; nothing that identifies a person or a machine."""
    from importlib import metadata  # a slow import, which reading a record does not need

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
DATASET_FORMAT = "twmd-dataset-record"
FORMAT_VERSION = 1
LARGEST = 1 << 29
"""Bytes of a file that are read, some 20 million scores: what somebody else wrote must not fill the memory."""
RESULT = ("signature", "keys", "hashes", "counts", "score", "sides", "scores", "mean", "ci", "p_value", "documents")
MAY_LACK = {"mean", "ci", "p_value", "resampling", "documents"}


def record_text(record: Record) -> str:
    """Write a record as JSON, numbers in their shortest exact form."""
    content: dict[str, Any] = {"format": FORMAT, "format_version": FORMAT_VERSION} | asdict(record)
    del content["edited"]
    content["inputs"] = [file._asdict() for file in record.inputs]
    for system in content["systems"]:
        for result in system["results"]:
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
    except (OSError, ValueError) as error:  # a name with NUL is a ValueError
        raise FileError(f"{path!s:.200}: {getattr(error, 'strerror', None) or error}.") from error


def parse_record(text: str) -> Record:
    """Read a record from its JSON text; raises FileError, which names the place in it, if it is none."""
    if len(text) > LARGEST:
        raise FileError(f"it has more than {LARGEST >> 20} MB.")
    try:
        table = json.loads(text, object_pairs_hook=refuse_repeated_keys)
    except RecursionError as error:
        raise FileError("it is nested too deeply.") from error
    except json.JSONDecodeError as error:
        raise FileError(f"not JSON ({error}); it may be cut off.") from error
    except ValueError as error:  # a key that comes twice, a number that is too long
        raise FileError(f"{str(error).partition(':')[0]}.") from error
    _check(table, dict, "record")
    for name, known in (("format", FORMAT), ("format_version", FORMAT_VERSION)):
        if table.get(name) != known or isinstance(table[name], bool | float):
            raise FileError(f'expected {json.dumps(known)} as "{name}", not {_shown(table.get(name))}.')
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
