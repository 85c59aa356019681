"""Presets: named, complete settings of a metric, with their provenance.

They come from TOML files of this package, of packages with an entry point in `GROUP`, and of the user (``twmd setup
preset add``).
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from twmd_registry.errors import SpecError, shown
from twmd_registry.messages import menu, warn
from twmd_registry.registry.hashes import LENGTH, known_name
from twmd_registry.registry.keys import key
from twmd_registry.registry.metrics import CATALOGUE, entry
from twmd_registry.registry.names import DEFAULT_PRESET, EMBEDDED_MODEL, MetricName
from twmd_registry.registry.paths import home, is_there

GROUP = "twmd_registry.presets"
"""Entry-point group. A value is ``package`` or ``package:file.toml`` (default ``presets.toml``)."""
PACKAGED = "twmd_registry"
_OWN = "registry/presets.toml"
HASHES = ".safetensors"
"""Suffix of files with hashes of training data."""
_ABOUT = {"provenance": str, "fingerprint": str, "tuned": list, "tuned_on": list}
"""Fields of a metric's table that are not keys, and their types."""
_READS = {"languages": list, "scripts": list, "strict": bool}
"""Fields of a preset's table about what its model reads, and their types."""
_TYPES = {str: "a text", list: "a list of names", bool: "true or false", dict: "a table"}


@dataclass(frozen=True)
class Preset:
    """A preset of one metric. The model decides keys that it leaves out.

    Attributes:
        name: The name.
        metric: The metric.
        keys: Values by key.
        provenance: How the values were chosen.
        fingerprint: The model's content.
        source: This package, another package, or a user's file.
        tuned: Keys whose values were chosen by measurement.
        tuned_on: The data of that measurement, whose hashes are in `training_data`.
        languages: Languages that the model reads.
        scripts: Scripts that the model reads.
        strict: Whether to refuse other scripts.
    """

    name: str
    metric: MetricName
    keys: dict[str, Any]
    provenance: str
    fingerprint: str | None = None
    source: str = PACKAGED
    tuned: tuple[str, ...] = ()
    tuned_on: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    strict: bool = False

    @property
    def training_data(self) -> Path:
        """File with the hashes of the texts of `tuned_on`, in the TOML file's folder."""
        path = Path(str(resources.files(PACKAGED))) / _OWN if self.source == PACKAGED else Path(self.source)
        return path.with_suffix(HASHES)

    @property
    def reads(self) -> str:
        """Languages and scripts that it is made for, as ``en (Latin)``; empty if unknown."""
        return f"{', '.join(self.languages)} ({', '.join(self.scripts)})" if self.languages else ""

    @property
    def model(self) -> str | None:
        """Model that the preset is made for; None if it fits every model."""
        model: str | None = self.keys.get("model")
        return model


def read_presets(text: str, source: str) -> list[Preset]:
    """Parse a TOML text of presets from `source`; raise SpecError, with the table, if it is malformed."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{source} is not TOML: {error}.") from error
    if not tables:
        expected = "a table [NAME] with provenance, and a table [NAME.metrics.METRIC]"
        raise SpecError(f"{source} contains no preset: expected {expected}.")
    read: list[Preset] = []
    for name, table in tables.items():
        like = table.get("like") if isinstance(table, dict) else None
        if like is not None and not isinstance(tables.get(str(like)), dict):
            raise SpecError(f"{source}: [{name}]: like={like!r}: expected the name of another preset in the file.")
        about = {field: tables[like][field] for field in _READS if field in tables[like]} if like else {}
        read += _read_table(name, about | table if like else table, source)
    return read


def write_presets(name: str, provenance: str, presets: Sequence[Preset]) -> str:
    """Write a TOML table that `read_presets` reads, with a preset per metric."""
    table = _toml(name)  # unquoted, a name with a dot would be a nested table
    lines = [f"[{table}]", f"provenance = {_toml(provenance)}"]
    if reads := describe_model(presets[0].model if presets else None):
        lines += [f"languages = {_toml(reads.languages)}", f"scripts = {_toml(reads.scripts)}"]
    for preset in presets:
        about = {field: getattr(preset, field) for field in ("fingerprint", "tuned", "tuned_on", "provenance")}
        entries = preset.keys | {field: value for field, value in about.items() if value}
        lines += ["", f"[{table}.metrics.{preset.metric}]"]
        lines += [f"{name} = {_toml(value)}" for name, value in entries.items()]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """Write a text, number, truth value or list of texts as TOML, whose form equals JSON's."""
    return json.dumps(value, ensure_ascii=False)


def check_name(name: str, where: str) -> str:
    """Return a preset's name; raise SpecError, with its location, for an invalid name."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name, re.ASCII):
        raise SpecError(f"{where}: a preset's name may only have letters, digits, '.', '_' and '-'.")
    return name


def name_preset(name: str | None, origin: str) -> str:
    """Name a new preset: `name`, or the last part of the name or path `origin`, numbered if taken.

    Raises:
        SpecError: The name is invalid.
    """
    if name is not None:
        return check_name(name, f"--name {name!r}")
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", origin.strip("/.").rpartition("/")[2])
    taken = {preset.name for preset in presets().values()}
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    free = next(unused for unused in itertools.chain([name], numbered) if unused not in taken)
    return check_name(free, f"--name {free!r}")


def _take(table: dict[str, Any], name: str, expected: Any, where: str) -> Any:
    """Remove an entry of the expected type from a table; return an empty value if there is none."""
    value = table.pop(name, expected())
    if not isinstance(value, expected) or (expected is list and not all(isinstance(entry, str) for entry in value)):
        raise SpecError(f"{where}: {name}={value!r}: expected {_TYPES[expected]}.")
    return tuple(value) if expected is list else value


def _read_table(name: str, table: Any, source: str) -> Iterator[Preset]:
    where = f"{source}: [{name}]"
    check_name(name, where)
    left = dict(table) if isinstance(table, dict) else {}
    metrics, shared = (_take(left, field, dict, where) for field in ("metrics", "shared"))
    reads = {field: _take(left, field, expected, where) for field, expected in _READS.items()}
    origin = _take(left, "provenance", str, where)
    if _take(left, "others", bool, where):  # adds an empty table for every other metric of token vectors
        metrics = {str(metric): {} for metric, facts in CATALOGUE.items() if "layer" in facts.keys} | metrics
    if unknown := left.keys() - {"like"}:
        raise SpecError(
            f"{where}: unknown: {', '.join(sorted(unknown))}. Expected provenance, {', '.join(_READS)}, like (a preset "
            "with the same languages and scripts), others (true to include every other metric of token vectors), "
            f"[{name}.shared] and [{name}.metrics.METRIC]."
        )
    if not metrics:
        raise SpecError(f"{where}: no [{name}.metrics.METRIC] table: add one per metric.")
    for metric in list(metrics):
        table_of_metric = _take(metrics, metric, dict, f"{where}, metrics")
        keys = shared | table_of_metric
        about = {field: _take(keys, field, expected, where) for field, expected in _ABOUT.items()}
        about["provenance"] = about["provenance"] or origin
        if not about["provenance"].strip():
            raise SpecError(f"{where}: no provenance: describe how the values were chosen.")
        if not re.fullmatch(rf"([0-9a-f]{{{LENGTH}}})?", about["fingerprint"]):
            raise SpecError(f"{where}: fingerprint={about['fingerprint']!r} is not {LENGTH} hexadecimal digits.")
        about["fingerprint"] = about["fingerprint"] or None
        try:
            facts = entry(metric)
            for key_name in table_of_metric.keys() - _ABOUT.keys():
                key(key_name, facts.keys, metric)
            for key_name in about["tuned"]:
                key(key_name)
            used = {key_name: value for key_name, value in keys.items() if key_name in facts.keys}
            for key_name, value in keys.items():
                key(key_name).parse(value)
        except SpecError as error:
            raise SpecError(f"{where}, metrics.{metric}: {error}") from error
        yield Preset(name, MetricName(metric), used, source=source, **about, **reads)


@functools.cache
def presets() -> dict[tuple[MetricName, str], Preset]:
    """Return every preset by metric and name, this package's first, in the catalogue's order.

    Warns about presets of other packages or the user that cannot be read or whose name is taken.
    """
    packaged = read_presets(_text(PACKAGED, _OWN), PACKAGED)
    known = {(preset.metric, preset.name): preset for preset in packaged}
    taken = {preset.name for preset in packaged}
    for source, text in _more_presets():
        try:
            more = read_presets(text, source)
        except SpecError as error:
            warn(f"presets left out: {error}")
            continue
        if twice := sorted({preset.name for preset in more} & taken):
            warn(f"presets left out: {source}: the name {', '.join(twice)} is taken.")
            continue
        taken |= {preset.name for preset in more}
        known |= {(preset.metric, preset.name): preset for preset in more}
    order = list(CATALOGUE)
    return dict(sorted(known.items(), key=lambda item: order.index(item[0][0])))


def _more_presets() -> Iterator[tuple[str, str]]:
    """Yield source and TOML text of presets from outside this package."""
    from importlib import metadata  # takes longer than all of the registry

    for point in metadata.entry_points(group=GROUP):
        try:
            yield f"package {point.module}", _text(point.module, point.attr or "presets.toml")
        except Exception as error:  # noqa: BLE001 (another package's fault must not stop this one)
            warn(f"presets left out: entry point {point.name!r} of {GROUP}: {error}")
    folder = home() / "presets"
    for path in sorted(folder.glob("[!.]*.toml")) if is_there(folder) else ():  # without macOS's ._NAME
        try:
            yield str(path), path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            warn(f"presets left out: {path}: {error}")


def _text(package: str, file: str) -> str:
    return resources.files(package).joinpath(file).read_text(encoding="utf-8")


def presets_of(metric: MetricName) -> dict[str, Preset]:
    """Return the presets of one metric, by name."""
    return {name: preset for (owner, name), preset in presets().items() if owner is metric}


def preset_named(metric: MetricName, name: str) -> Preset:
    """Return a metric's preset by name; raise SpecError, with the choices, if there is none."""
    named = presets_of(metric)
    if not isinstance(name, str) or name not in named:
        word = shown(name)
        raise SpecError(f"{metric} has no preset {word}; {menu(word, named)}.")
    return named[name]


def describe_model(model: str | None) -> Preset | None:
    """Return the first preset that names the languages and scripts of a model; None without one."""
    return next((preset for preset in presets().values() if preset.scripts and preset.model == model), None)


def default_preset(metric: MetricName, model: str | None) -> Preset:
    """Return a metric's default: the best packaged preset, or a model's untuned preset.

    Presets of other packages and users are never a default.
    """
    if model is None and (metric, DEFAULT_PRESET) in presets():
        return presets()[metric, DEFAULT_PRESET]
    name = known_name(model) if model else EMBEDDED_MODEL
    packaged = [preset for preset in presets_of(metric).values() if preset.source == PACKAGED]
    for preset in packaged:
        if preset.model == name:
            return preset
    return next(preset for preset in packaged if preset.model is None)
