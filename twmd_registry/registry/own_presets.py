"""A user's own presets, checked when they are added and then used like any other."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from twmd_registry.errors import FileError, SpecError, not_utf8
from twmd_registry.messages import menu, warn
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.paths import home, write_file
from twmd_registry.registry.presets import HASHES, Preset, check_name, presets, read_presets, write_presets
from twmd_registry.registry.spec import apply_preset

PRESET_FILE = "preset.toml"
"""Preset file in the folder of a trained adapter."""
_LEARNED = "metric layer aggregation special ngram vectors centering temperature iterations objective normalize"
"""Settings that must be the same as in the adapter's training."""


def add_preset(path: Path, name: str | None = None) -> list[Preset]:
    """Check a TOML file with one preset and copy it, with the hashes of its tuning data, if its folder has them.

    Returns:
        The preset, once per metric that it sets, under `name` or its name in the file.
    """
    content, added = read_preset_file(path)
    names = sorted({preset.name for preset in added})
    if len(names) > 1:
        held = f"{len(names)} presets ({', '.join(names)})"
        raise SpecError(f"{path} contains {held}: add them one by one, each from its own file.")
    if name is not None:
        check_name(name, f"--name {name!r}")
        added = [dataclasses.replace(preset, name=name) for preset in added]
        content = write_presets(name, added[0].provenance, added).encode()
    kept, hashes = _kept(added[0].name), added[0].training_data
    if (taken := added[0].name) in {name for _, name in presets()}:
        hint = f", or remove yours with 'twmd setup preset remove {taken}'" if kept.exists() else ""
        raise SpecError(f"preset {taken!r} exists already: add this one under another name with --name NAME{hint}.")
    for preset in added:
        apply_preset(preset, {"model": preset.model or "any/model"})
    if hashes.is_file():
        write_file(kept.with_suffix(HASHES), hashes.read_bytes())
    write_file(kept, content)
    presets.cache_clear()
    return added


def read_preset_file(path: Path) -> tuple[bytes, list[Preset]]:
    """Return a TOML file's content and presets; raise FileError, or SpecError with the table."""
    try:
        content = path.read_bytes()
        return content, read_presets(content.decode("utf-8"), str(path))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from error


def warn_about_other_settings(spec: MetricSpec, folder: Path) -> None:
    """Warn if an adapter's preset file says that it was trained under other settings."""
    path = folder / PRESET_FILE
    if not path.is_file():
        return
    for trained in (apply_preset(preset, {}) for preset in read_preset_file(path)[1]):
        current, trained_values = (
            s.values() | {"metric": s.metric, "centering": s.centering.kind} for s in (spec, trained)
        )
        changed = [name for name in _LEARNED.split() if current.get(name) != trained_values.get(name)]
        if changed:
            shown = "; ".join(f"{name} is {current.get(name)}, was {trained_values.get(name)}" for name in changed)
            warn(f"adapter {spec.adapter} was trained under other settings: {shown} (see {path}).")


def added_presets() -> list[str]:
    """Return the names of the presets that `add_preset` added."""
    return sorted(path.stem for path in _kept("x").parent.glob("[!.]*.toml"))


def remove_preset(name: str) -> None:
    """Remove a preset that `add_preset` added; raise SpecError if there is none, FileError if that fails."""
    added = added_presets()
    if name not in added:
        raise SpecError(f"no preset {name!r} was added here; {menu(name, added) if added else 'there are no others'}.")
    try:
        _kept(name).unlink()
        _kept(name).with_suffix(HASHES).unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"cannot remove {_kept(name)}: {error.strerror}.") from error
    presets.cache_clear()


def _kept(name: str) -> Path:
    return home() / "presets" / f"{name}.toml"
