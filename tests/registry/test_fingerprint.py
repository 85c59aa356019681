"""Hashes of files: remembered where that is safe, read where it is not."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests import tiny
from twmd_registry.models.files import embedded_folder, find_model
from twmd_registry.registry import fingerprint as module
from twmd_registry.registry.fingerprint import fingerprint, reread, sha256_of
from twmd_registry.registry.names import EMBEDDED_MODEL, EMBEDDED_SHA256


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget earlier hashes, in this process and on disk."""
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(module, "_remembered", {})


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a new process would not know: all hashes that are not on disk."""
    monkeypatch.setattr(module, "_remembered", {})


def large(path: Path, first: bytes = b"a") -> str:
    content = first + b"x" * (1 << 20)
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def keep_the_time(path: Path, change: bytes) -> None:
    """Change a file behind its size and time."""
    before = path.stat()
    content = change + path.read_bytes()[len(change) :]
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_large_files_hash_is_kept_over_processes_until_its_size_or_time_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights"
    first = large(path)
    assert sha256_of(path) == first
    keep_the_time(path, b"b")
    forget(monkeypatch)
    assert sha256_of(path) == first, "not read again"
    with reread():
        assert sha256_of(path) == hashlib.sha256(path.read_bytes()).hexdigest() != first
    assert sha256_of(path) != first, "what was read by force is remembered"
    os.utime(path, ns=(1, 1))
    forget(monkeypatch)
    assert sha256_of(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_reread_reads_every_file_once_and_the_next_one_reads_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    digest = hashlib.file_digest

    def spy(file: Any, name: str) -> Any:
        read.append(Path(file.name).name)
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", spy)
    for name in ("weights", "other"):
        large(tmp_path / name, name.encode())
    for _ in range(2):
        with reread():
            hashes = [sha256_of(tmp_path / name) for name in ("weights", "other", "weights")]
        assert hashes[0] == hashes[2] != hashes[1]
    assert read == ["weights", "other"] * 2


def test_small_files_are_not_worth_a_place_on_disk(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert sha256_of(tmp_path / "config.json") == hashlib.sha256(b"{}").hexdigest()
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"path": 3}', '{"path": [1, 2, "../../etc"]}', "[" * 100_000])
def test_spoiled_cache_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "weights"
    wanted = large(path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "hashes.json").write_text(content.replace("path", str(path)), encoding="utf-8")
    assert sha256_of(path) == wanted
    assert json.loads((tmp_path / "home" / "hashes.json").read_text(encoding="utf-8"))[str(path)][2] == wanted


def test_home_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "file" / "home"))
    path = tmp_path / "weights"
    assert large(path) == sha256_of(path)


def hub_cache(folder: Path, source: Path) -> Path:
    """Return the files of a folder as the Hub's cache keeps them: blobs by hash (weights by sha256), links by revision."""
    blobs, snapshot = folder / "blobs", folder / "snapshots" / "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_file():
            content = path.read_bytes()
            kind = (
                hashlib.sha256(content)
                if path.suffix == ".safetensors"
                else hashlib.sha1(b"blob %d\0" % len(content) + content)
            )
            (blobs / kind.hexdigest()).write_bytes(content)
            (snapshot / path.name).symlink_to(Path("..") / ".." / "blobs" / kind.hexdigest())
    return snapshot


def test_in_the_hub_cache_a_files_name_is_its_hash(tmp_path: Path) -> None:
    snapshot = hub_cache(tmp_path / "hub", tiny.save_encoder("bert", tmp_path / "bert"))
    weights = snapshot / "model.safetensors"
    assert sha256_of(weights) == weights.resolve().name
    keep_the_time(weights.resolve(), b"zz")
    assert sha256_of(weights) == weights.resolve().name, "not read at all"
    with reread():
        assert sha256_of(weights) != weights.resolve().name


def test_embedded_copy_a_local_copy_and_the_hubs_give_one_signature(tmp_path: Path) -> None:
    packaged = embedded_folder()
    assert packaged is not None
    local = tmp_path / "copy"
    shutil.copytree(packaged, local)
    hub = hub_cache(tmp_path / "models--sentence-transformers--all-MiniLM-L6-v2", packaged)
    assert fingerprint(local) == fingerprint(hub) == find_model(EMBEDDED_MODEL).fingerprint
    wanted = twmd_registry.scorer("twmd").signature
    for folder in (local, hub):
        assert twmd_registry.scorer("twmd", "embedded", model=str(folder)).signature == wanted


def test_packaged_files_are_the_hubs() -> None:
    # git's names of the files at revision 1110a243 of sentence-transformers/all-MiniLM-L6-v2
    published = {
        "config.json": "72b987fd805cfa2b58c4c8c952b274a11bfd5a00",
        "tokenizer.json": "cb202bfe2e3c98645018a6d12f182a434c9d3e02",
        "tokenizer_config.json": "c79f2b6a0cea6f4b564fed1938984bace9d30ff0",
    }
    packaged = embedded_folder()
    assert packaged is not None
    for name, blob in published.items():
        content = (packaged / name).read_bytes()
        assert hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest() == blob
    assert sha256_of(packaged / "model.safetensors") == EMBEDDED_SHA256
