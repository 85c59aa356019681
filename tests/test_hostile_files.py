"""Malicious files: false safetensors headers, and names that lead outside a folder."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from peft import LoraConfig
from safetensors.torch import load_file

import twmd_registry
from tests import tiny
from twmd_registry.encode.mean_vectors import read_background
from twmd_registry.errors import ModelError, SignatureError, SpecError, TwmdError
from twmd_registry.metaeval.overlap import read_hashes
from twmd_registry.models.files import find_adapter, find_model, merge
from twmd_registry.models.load import load_encoder
from twmd_registry.models.regressor import load_line
from twmd_registry.models.vectors import load_static
from twmd_registry.registry.own_presets import add_preset


def packed(header: Any, content: bytes = bytes(64)) -> bytes:
    """Return a safetensors file with a header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


def tensor(start: int, end: int, *shape: int) -> dict[str, Any]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}


NAME = "embedding.weight"
DUPLICATE = json.dumps({NAME: tensor(0, 32, 4, 2)})[:-1] + "," + json.dumps({NAME: tensor(32, 64, 4, 2)})[1:]
HEADERS = {
    "no header": b"",
    "huge header": struct.pack("<Q", 1 << 63) + b"{}",
    "header of 100 MB": packed(b"{" + b" " * 100_000_001 + b"}"),
    "header of 90 MB": packed(json.dumps({NAME: tensor(0, 32, 4, 2)}).encode() + b" " * 90_000_000, bytes(31)),
    "deep header": packed(b'{"a":' + b"[" * 1_000_000),
    "overlap": packed({NAME: tensor(0, 64, 8, 2), "weight": tensor(32, 64, 4, 2)}),
    "hole": packed({NAME: tensor(32, 64, 4, 2)}),
    "beyond the end": packed({NAME: tensor(0, 128, 16, 2)}),
    "backwards": packed({NAME: tensor(64, 0, 8, 2)}),
    "negative shape": packed({NAME: tensor(0, 64, -8, -2)}),
    "huge shape": packed({NAME: tensor(0, 64, 1 << 62, 1 << 62)}),
    "duplicate name": packed(DUPLICATE.encode()),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of valid models and an adapter, whose weights a test replaces."""
    folder = tmp_path_factory.mktemp("models")
    table = folder / "vectors.txt"
    table.write_text("".join(f"{word} {i} 1\n" for i, word in enumerate(tiny.WORDS)), encoding="utf-8")
    twmd_registry.save_vectors(table, folder / "static")
    tiny.save_encoder("bert", folder / "bert")
    tiny.save_encoder("bert", folder / "base")
    LoraConfig(target_modules=["query"]).save_pretrained(str(folder / "adapter"))
    return folder


def merge_adapter(path: Path) -> Any:
    files = find_model(str(path.parents[1] / "base"))
    return merge(load_encoder(files, "float32"), find_adapter(str(path.parent)), files)


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "static": ("static/model.safetensors", lambda path: load_static(find_model(str(path.parent)), "float32")),
    "encoder": ("bert/model.safetensors", lambda path: load_encoder(find_model(str(path.parent)), "float32")),
    "adapter": ("adapter/adapter_model.safetensors", merge_adapter),
    "head": ("head.safetensors", lambda path: load_line(path, "")),
    "mean vectors": ("mean-x.safetensors", read_background),
    "training data": ("preset.safetensors", read_hashes),
}


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("reader", READERS)
def test_false_header_raises_an_error(folders: Path, reader: str, header: str) -> None:
    name, read = READERS[reader]
    (folders / name).write_bytes(HEADERS[header])
    with pytest.raises(TwmdError):
        read(folders / name)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a model's folder, next to a file that it must not reach."""
    (tmp_path / "outside.json").write_text("{}", encoding="utf-8")
    tiny.save_encoder("bert", tmp_path / "other")
    return tiny.save_encoder("bert", tmp_path / "model")


def test_shard_index_cannot_reach_outside_files(model: Path) -> None:
    (model / "model.safetensors").unlink()
    names = dict.fromkeys(load_file(model.parent / "other" / "model.safetensors"), "../other/model.safetensors")
    index = {"metadata": {}, "weight_map": names}
    (model / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(ModelError):
        twmd_registry.load("sbert", model=str(model), layer=1, centering="none").score(["a"], ["a"])


def test_adapter_opens_nothing_at_the_path_of_its_base_model(model: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    LoraConfig(target_modules=["query"], base_model_name_or_path="../other").save_pretrained(str(adapter))
    (adapter / "adapter_model.safetensors").write_bytes(
        packed({NAME: tensor(0, 64, 8, 2)})
    )  # of the rank, unlike names
    shutil.rmtree(model.parent / "other")
    with pytest.raises(ModelError, match="does not fit this model: Found missing adapter keys"):
        merge(load_encoder(find_model(str(model)), "float32"), find_adapter(str(adapter)), find_model(str(model)))


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "..", "a/b", ".hidden"])
def test_preset_cannot_be_written_to_another_folder(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    path = tmp_path / "preset.toml"
    table = f'["{name}".shared]\nmodel = "embedded"\nlayer = 3\n["{name}".metrics.twmd]\nprovenance = "a test"\n'
    path.write_text(table, encoding="utf-8")
    for new_name in (None, name):
        with pytest.raises(SpecError, match="a preset's name"):
            add_preset(path, new_name)
    assert [entry.name for entry in tmp_path.iterdir()] == ["preset.toml"]


@pytest.mark.parametrize("key", ["stopwords", "baseline"])
def test_signature_reads_no_file(key: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("word\n", encoding="utf-8")
    before = str(twmd_registry.load("twmd", stopwords=str(tmp_path / "secret")).score(["a"], ["a"]).signature)
    at = before.index("|stopwords:")
    signature = f"{before[:at]}|{key}:{tmp_path}/secret{before[before.index('|', at + 1) :]}"
    with pytest.raises((SignatureError, SpecError)):
        twmd_registry.load(signature)


def test_package_opens_no_archive_with_path_traversal() -> None:
    for path in Path(twmd_registry.__file__).parent.rglob("*.py"):
        if path.name == "large.py":  # reads installed packages, entry by entry, and leaves out names with ..
            continue
        words = set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        assert not words & {"tarfile", "zipfile", "unpack_archive", "extractall"}, path
