"""Models that come from PyPI in another form, made into checked model folders once, under the user's own data."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from twmd_registry.errors import ModelError
from twmd_registry.models.fingerprint import fingerprint
from twmd_registry.progress import Progress
from twmd_registry.registry.paths import home


def model_folders() -> Path:
    """Return where models that are made from packages lie."""
    return home() / "models"


def assemble(name: str, wanted: str, megabytes: int, write: Callable[[Path], None]) -> Path:
    """Return the folder of a model of a known content, its fingerprint `wanted`; where it is not complete, `write`
    makes it, complete or not at all.
    """
    folder = model_folders() / name.replace("/", "--")
    if _is_complete(folder, wanted):
        return folder
    partial = folder.with_name(f"{folder.name}.part")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock")):  # another process may be making it
            if not _is_complete(folder, wanted):
                for path in (partial, folder):
                    shutil.rmtree(path, ignore_errors=True)
                partial.mkdir()
                try:
                    write(partial)
                    partial.rename(folder)
                finally:  # still locked: afterwards it may be another's
                    shutil.rmtree(partial, ignore_errors=True)
    except ModelError:  # an OSError, too
        raise
    except OSError as error:
        raise ModelError(
            f"cannot write {folder} ({megabytes} MB): {error.strerror or error}. Set TWMD_HOME to a folder that can be "
            "written and has so much room."
        ) from error
    return folder


def _is_complete(folder: Path, wanted: str) -> bool:
    try:
        return folder.is_dir() and fingerprint(folder) == wanted
    except ModelError:  # another process removes it, to make it again
        return False


@contextmanager
def announced(name: str, megabytes: int) -> Iterator[Progress]:
    """Say on stderr what is made where and how large it is, and show how many megabytes are written."""
    from rich.console import Console
    from rich.progress import Progress as Bars

    console = Console(stderr=True, soft_wrap=True)
    console.print(f"{name}: put together once, {megabytes} MB in {model_folders()}", highlight=False, markup=False)
    with Bars(console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("megabytes", total=megabytes)
        yield lambda units: bars.advance(task, units)
