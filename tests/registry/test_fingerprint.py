"""Hashes of files: remembered where that is safe, read where it is not."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests import tiny
from twmd_registry.models.files import embedded_folder, find_model
from twmd_registry.registry.fingerprint import fingerprint, reread, sha256_of
from twmd_registry.registry.names import EMBEDDED_MODEL, EMBEDDED_SHA256


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def keep_the_time(path: Path, change: bytes) -> None:
    """Change a file behind its size and time."""
    before = path.stat()
    content = change + path.read_bytes()[len(change) :]
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_hash_is_remembered_until_size_or_time_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read, of_file = tmp_path / "weights", [], hashlib.file_digest

    def spy(file: Any, name: str) -> Any:
        read.append(file.name)
        return of_file(file, name)

    monkeypatch.setattr(hashlib, "file_digest", spy)
    path.write_bytes(b"some weights")
    first = sha256_of(path)
    assert first == digest(path)
    keep_the_time(path, b"b")
    assert sha256_of(path) == first, "not read again"
    with reread():
        assert sha256_of(path) == sha256_of(path) == digest(path) != first
    assert len(read) == 2
    os.utime(path, ns=(1, 1))
    assert sha256_of(path) == digest(path)
    assert len(read) == 3


def blob_of(content: bytes) -> str:
    """Return git's name of a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def hub_cache(folder: Path, source: Path) -> Path:
    """Return a folder's files as the Hub's cache keeps them: blobs by hash (weights by sha256), links by revision."""
    blobs, snapshot = folder / "blobs", folder / "snapshots" / "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for path in filter(Path.is_file, source.iterdir()):
        name = digest(path) if path.suffix == ".safetensors" else blob_of(path.read_bytes())
        shutil.copyfile(path, blobs / name)
        (snapshot / path.name).symlink_to(Path("..") / ".." / "blobs" / name)
    return snapshot


def test_copies_in_and_out_of_the_hub_cache_have_one_signature(tmp_path: Path) -> None:
    snapshot = hub_cache(tmp_path / "hub", tiny.save_encoder("bert", tmp_path / "bert"))
    weights = snapshot / "model.safetensors"
    assert sha256_of(weights) == weights.resolve().name
    keep_the_time(weights.resolve(), b"zz")
    assert sha256_of(weights) == weights.resolve().name, "not read at all"
    with reread():
        assert sha256_of(weights) != weights.resolve().name
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
    assert (packaged := embedded_folder()) is not None
    assert {name: blob_of((packaged / name).read_bytes()) for name in published} == published
    assert sha256_of(packaged / "model.safetensors") == EMBEDDED_SHA256
