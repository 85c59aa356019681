"""The base-size model, joined from five packages with parts of one zip file."""

from __future__ import annotations

import io
import zipfile
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import tiny
from twmd_registry.errors import ModelError
from twmd_registry.models import large
from twmd_registry.models.files import find_model
from twmd_registry.models.fingerprint import fingerprint
from twmd_registry.registry.names import LARGE_FINGERPRINT, LARGE_MODEL


class Part(type(Path())):  # type: ignore[misc]  # the class of a platform
    """A file of a distribution."""

    def locate(self) -> Path:
        return Path(self)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Install the parts of a tiny model, with an empty home; return them."""
    model = tiny.save_encoder("bert", tmp_path / "model")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("all-mpnet-base-v2/desktop.ini", "")
        for path in model.rglob("*"):
            archive.write(path, Path("all-mpnet-base-v2") / path.relative_to(model))
    content = packed.getvalue()
    size = len(content) // 5 + 9  # the last part is shorter, like the published one
    files = []
    for number in range(5):
        files.append(tmp_path / f"model.zip.{number + 1:03}")
        files[-1].write_bytes(content[number * size : (number + 1) * size])
    installed: dict[str, Any] = {
        package: SimpleNamespace(files=[Part(file), Part(tmp_path / "__init__.py")])
        for package, file in zip(large.PACKAGES, files, strict=True)
    }
    real = metadata.distribution
    monkeypatch.setattr(metadata, "distribution", lambda name: installed.get(name) or real(name))
    monkeypatch.setattr(large, "LARGE_FINGERPRINT", fingerprint(model))
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    return files


def test_parts_are_joined_once_and_the_size_is_reported(
    parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = find_model(LARGE_MODEL)
    assert found.name == LARGE_MODEL
    assert found.fingerprint != LARGE_FINGERPRINT  # this one is tiny
    shown = capsys.readouterr().err
    assert "440 MB" in shown
    assert str(tmp_path / "home" / "models") in shown
    interrupted = found.folder.with_name(f"{found.folder.name}.part")
    interrupted.mkdir()
    (found.folder / "config.json").unlink()
    assert find_model(LARGE_MODEL).fingerprint == found.fingerprint
    assert not interrupted.exists()
    for part in parts:
        part.unlink()  # a complete folder needs no part
    assert find_model(LARGE_MODEL).folder == found.folder


@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda content: bytes(len(content))])
@pytest.mark.parametrize("number", [0, 2, 4])
def test_damaged_parts_are_refused_and_leave_no_folder(
    damage: Any, number: int, parts: list[Path], tmp_path: Path
) -> None:
    parts[number].write_bytes(damage(parts[number].read_bytes()))
    with pytest.raises(ModelError, match="reinstall"):
        find_model(LARGE_MODEL)
    assert not any(path.is_dir() for path in (tmp_path / "home" / "models").iterdir())


def test_unpublished_content_is_refused(parts: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "LARGE_FINGERPRINT", "0" * 12)
    with pytest.raises(ModelError, match="do not contain the published model"):
        find_model(LARGE_MODEL)
