"""The rated data of an experiment: which files they are, and which of their groups take part."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from twmd_registry.errors import FileError, warn
from twmd_registry.judgments.hub_data import read_hub
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.judgments.sets import FORMATS
from twmd_registry.papers.experiment import AVERAGE, Experiment

GroupedSegments = dict[str, dict[str, RatedSegments]]
"""By set, then by group (a language pair, a subset), its segments in the order in which they are batched."""


def read_sources(experiment: Experiment, folder: Path | None, *, hub: bool = False) -> dict[str, RatedSegments]:
    """Read the sets of an experiment, each under one of its ``paths`` in the folder, or else from the Hub.

    Raises FileError where there is no such folder, a required set or every set is missing, or a set is damaged.
    """
    if folder and not folder.is_dir():
        places = ", ".join(source["paths"][0] for source in experiment.data.values())
        raise FileError(f"{folder} is not a folder; expected a folder that holds {places}.")
    result = {
        name: next((folder / place for place in source["paths"] if (folder / place).exists()), None) if folder else None
        for name, source in experiment.data.items()
    }
    needed = [name for name in experiment.data if name not in experiment.optional]
    lacking = [experiment.data[name]["paths"][0] for name in needed if not result[name]]
    if lacking:
        raise FileError(f"expected {', '.join(dict.fromkeys(lacking))} in {folder}; not there.")
    read, missing = {}, []
    for name, source in experiment.data.items():
        try:
            read[name] = _read(source, result[name], hub=hub)
        except FileError as error:
            if result[name]:
                raise
            places = f" (no {' or '.join(source['paths'])} in {folder})" if folder else ""
            missing.append(f"{name}{places}{f' ({error})' if hub else ''}")
    if not read:
        raise FileError(f"{experiment.name}: no data set can be read: {'; '.join(missing)}.")
    for name in missing:
        warn(f"left out: {name}.")
    return read


def _read(source: Mapping[str, object], path: Path | None, *, hub: bool) -> RatedSegments:
    """Read a set, from the Hub where there is no path; a reference that a row has twice is read once."""
    if path is None:
        if not hub:
            raise FileError("not there")
        return read_hub(str(source["hub"]))
    rated = FORMATS[str(source["format"])](path, **source.get("keys", {}))  # type: ignore[arg-type]
    if source.get("by_length"):
        rated = select(rated, np.argsort(pair_lengths(rated), kind="stable"))
    references = [own if isinstance(own, str) else list(dict.fromkeys(own)) for own in rated.references]
    return rated._replace(references=references)  # the best reference, which counts, is the same


def pair_lengths(rated: RatedSegments) -> np.ndarray:
    """Return the mean number of characters of a pair's two texts; shape (segments,)."""
    pairs = zip(rated.predictions, rated.references, strict=True)
    return np.array([(len(text) + len(other)) / 2 for text, other in pairs])


def split_groups(experiment: Experiment, sources: Mapping[str, RatedSegments]) -> GroupedSegments:
    """Select the groups of every set that the experiment names, in ``groups`` or as columns.

    Raises FileError where a group has no row; other groups are left out with a warning.
    """
    units = dict.fromkeys(cell.unit for cell in experiment.cells)
    columns = tuple(unit for unit in units if unit not in {AVERAGE, *experiment.data})
    return {name: _groups_of(rated, experiment.groups.get(name, columns), name) for name, rated in sources.items()}


def _groups_of(rated: RatedSegments, wanted: tuple[str, ...], name: str) -> dict[str, RatedSegments]:
    if missing := [group for group in wanted if group not in rated.group]:
        raise FileError(f"{name} has no row of {', '.join(missing)}: the table's groups are {', '.join(wanted)}.")
    groups = np.array(rated.group)
    kept = [group for group in dict.fromkeys(rated.group) if not wanted or group in wanted]
    chosen = {group: np.flatnonzero(groups == group) for group in kept}
    if others := sorted(set(rated.group) - set(chosen)):
        rows = len(groups) - sum(map(len, chosen.values()))
        warn(f"{name}: groups that the table does not have, left out: {', '.join(others)} ({rows} rows).")
    return {group: select(rated, rows) for group, rows in chosen.items()}
