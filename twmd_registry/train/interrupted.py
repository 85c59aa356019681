"""The folder of a training run: what an interrupted one leaves in it."""

from __future__ import annotations

import json
from pathlib import Path

from twmd_registry.errors import FileError, SpecError
from twmd_registry.registry.paths import write_atomically

SETTINGS = "settings.json"


def check_folder(folder: Path, settings: str, *, resume: bool) -> None:
    """Refuse to write over something, or to go on with a run of another plan.

    Args:
        folder: Of the checkpoints, in that of the results.
        settings: Of the plan, as JSON.
        resume: Whether an interrupted run is to be gone on with.

    Raises:
        SpecError: There is an interrupted run and it is not to be resumed, or there is none to resume, or it is another
            plan's.
        FileError: The folder of the results holds something.
    """
    path = folder / SETTINGS
    if not resume:
        if path.is_file():
            raise SpecError(f"{folder} holds an interrupted run: go on with it by --resume, or remove the folder.")
        if folder.parent.is_dir() and any(folder.parent.iterdir()):
            raise FileError(f"{folder.parent} is not empty: give a new folder, so that nothing in it is written over.")
        return
    if not path.is_file():
        raise SpecError(f"{folder} holds no interrupted run: there is nothing to resume.")
    old, new = (json.loads(text) for text in (path.read_text(encoding="utf-8"), settings))
    if changed := [
        f"{key} was {old.get(key)!r} and is {new.get(key)!r}"
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]:
        raise SpecError(f"{folder} holds an interrupted run of another plan: {'; '.join(changed)}.")


def mark(folder: Path, settings: str) -> None:
    """Write into the folder of checkpoints whose they are.

    Raises:
        FileError: It cannot be written.
    """
    try:
        write_atomically(folder / SETTINGS, settings.encode())
    except OSError as error:
        raise FileError(f"cannot write {folder / SETTINGS}: {error.strerror}.") from error
