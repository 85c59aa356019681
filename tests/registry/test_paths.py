"""Files are written atomically, even concurrently."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from twmd_registry.encode.mean_vectors import MEAN_VECTOR
from twmd_registry.errors import FileError, ModelError
from twmd_registry.models.assembled import _is_complete, model_folders
from twmd_registry.models.fitted import FittedFile, locate
from twmd_registry.plugins.evaluate_hook import is_installed
from twmd_registry.registry.paths import home, write_atomically, write_file
from twmd_registry.registry.presets import presets
from twmd_registry.registry.spec import make_spec

CONTENTS = [bytes([number]) * (100_000 * (number + 1)) for number in range(4)]


def test_concurrently_written_file_is_always_complete(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    path.write_bytes(CONTENTS[0])
    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write_atomically, path, content) for content in CONTENTS * 50]
        while not all(writer.done() for writer in writers):
            assert path.read_bytes() in CONTENTS
    assert [writer.exception() for writer in writers] == [None] * 200
    assert list(tmp_path.iterdir()) == [path]


def test_link_and_permissions_are_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "own", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_file(link, b"new")
    assert (link.is_symlink(), target.read_bytes(), target.stat().st_mode & 0o777) == (True, b"new", 0o640)


def test_metric_scores_without_a_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be opened, or no home at all, is the user of a container."""
    for name in ("TWMD_HOME", "HF_MODULES_CACHE"):
        monkeypatch.setenv(name, "x" * 300)
    presets.cache_clear()
    try:
        assert make_spec("twmd").adapter
        assert not is_installed()
        assert not _is_complete(model_folders() / "any", "0" * 12)
    finally:
        presets.cache_clear()
    with pytest.raises(ModelError, match="is not on this machine"):
        locate(MEAN_VECTOR, "0" * 12)
    with pytest.raises(FileError, match="cannot write"):
        FittedFile(MEAN_VECTOR, b"").save()
    for name in ("TWMD_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # KeyError, as for a user that the system does not know
    assert not home().exists()
