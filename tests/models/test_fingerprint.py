"""Content hashes: cached safely, equal for copies, different for every relevant change."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer

import twmd_registry
from tests import tiny
from twmd_registry.errors import ModelError, SpecError
from twmd_registry.models.files import adapter_content, embedded_folder, find_model
from twmd_registry.models.fingerprint import ANY, NEUTRAL, fingerprint, settings_of
from twmd_registry.registry import hashes
from twmd_registry.registry.hashes import forget_hashes, json_sha256, sha256_of, tensors_sha256
from twmd_registry.registry.names import EMBEDDED_FINGERPRINT, EMBEDDED_MODEL, SHORT_NAMES, TOKENIZERS


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def keep_the_time(path: Path, change: bytes) -> None:
    """Change a file without changing its size and time."""
    before = path.stat()
    content = change + path.read_bytes()[len(change) :]
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_hash_is_cached_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read, of_file = tmp_path / "weights", [], hashlib.file_digest

    def spy(file: Any, name: str) -> Any:
        read.append(file.name)
        return of_file(file, name)

    monkeypatch.setattr(hashlib, "file_digest", spy)
    monkeypatch.setattr(hashes, "_SETTLED", 0)
    path.write_bytes(b"some weights")
    time.sleep(0.02)
    assert sha256_of(path) == sha256_of(path) == digest(path)
    assert len(read) == 1
    keep_the_time(path, b"b")
    assert sha256_of(path) == digest(path)
    assert len(read) == 2
    forget_hashes()
    assert sha256_of(path) == digest(path)
    assert len(read) == 3
    monkeypatch.setattr(hashes, "_SETTLED", 10**12)
    keep_the_time(path, b"c")
    assert sha256_of(path) == sha256_of(path) == digest(path)
    assert len(read) == 5, "just changed: another change may leave the same time"


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
    packaged = embedded_folder()
    assert packaged is not None
    local = tmp_path / "copy"
    shutil.copytree(packaged, local)
    hub = hub_cache(tmp_path / "models--sentence-transformers--all-MiniLM-L6-v2", packaged)
    assert fingerprint(local) == fingerprint(hub) == find_model(EMBEDDED_MODEL).fingerprint
    expected = twmd_registry.load("twmd", "embedded").signature
    for folder in (local, hub):
        assert twmd_registry.load("twmd", "embedded", model=str(folder)).signature == expected


def save_copy(source: Path, folder: Path, **options: Any) -> Path:
    """Save a model and its tokenizer again with transformers."""
    AutoModel.from_pretrained(source).save_pretrained(folder, **options)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder


def test_saved_copies_have_one_signature(tmp_path: Path) -> None:
    packaged = embedded_folder()
    assert packaged is not None
    saved = save_copy(packaged, tmp_path / "saved")
    for name in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"):
        assert digest(saved / name) != digest(packaged / name)
    for path in saved.glob("*.json"):
        path.write_bytes(b"\xef\xbb\xbf" * ("config" in path.name) + path.read_bytes() + b"\r\n")
    sharded = save_copy(packaged, tmp_path / "sharded", max_shard_size="20MB")
    assert len(list(sharded.glob("*.safetensors"))) > 1
    expected = twmd_registry.load("twmd", "embedded").score(["a cat sat"], ["the cat sat down"])
    for folder in (saved, sharded):
        assert fingerprint(folder) == EMBEDDED_FINGERPRINT
        result = twmd_registry.load("twmd", "embedded", model=str(folder)).score(["a cat sat"], ["the cat sat down"])
        assert result.signature == expected.signature
        assert result.scores == pytest.approx(expected.scores, abs=1e-6)


def test_length_limit_of_a_saved_copy_is_checked_but_not_fingerprinted(tmp_path: Path) -> None:
    packaged = embedded_folder()
    assert packaged is not None
    shutil.copytree(packaged, tmp_path, dirs_exist_ok=True)
    for length, kind, words in (
        (256, SpecError, "Set truncation=cut:256"),  # as sentence-transformers writes it
        ("512", ModelError, "model_max_length '512'"),
        (-1, ModelError, "model_max_length -1"),
        (None, None, ""),
    ):
        tiny.change_json(tmp_path / "tokenizer_config.json", model_max_length=length)
        assert fingerprint(tmp_path) == EMBEDDED_FINGERPRINT
        scorer = twmd_registry.load("twmd", "embedded", model=str(tmp_path))
        with pytest.raises(kind, match=words) if kind else contextlib.nullcontext():
            scorer.score(["a cat sat"], ["the cat sat down"])


def test_tokens_described_in_two_files_count_once(tmp_path: Path) -> None:
    folder = tiny.save_encoder("bert", tmp_path / "bert")
    tiny.change_json(folder / "tokenizer.json", added_tokens=[{"id": 1, "content": "[PAD]", "special": True}])
    # Transformers 4 saves the tokens in this file, too; transformers 5 does not.
    tiny.change_json(folder / "tokenizer_config.json", added_tokens_decoder={}, tokenizer_class="TokenizersBackend")
    before = fingerprint(folder)
    tokens = {"1": {"content": "[PAD]", "special": True}}  # as transformers 4 writes them
    tiny.change_json(folder / "tokenizer_config.json", added_tokens_decoder=tokens)
    assert fingerprint(folder) == before
    tiny.change_json(folder / "tokenizer_config.json", added_tokens_decoder=tokens | {"7": {"content": "cat"}})
    assert fingerprint(folder) != before


MOVING: list[tuple[str, dict[str, Any]]] = [
    ("config.json", {"layer_norm_eps": 0.1}),
    ("config.json", {"is_decoder": True}),
    ("config.json", {"hidden_act": "relu"}),
    ("tokenizer_config.json", {"unk_token": "cat"}),
    ("tokenizer_config.json", {"do_lower_case": True}),
    ("tokenizer_config.json", {"truncation_side": "left"}),
    ("tokenizer.json", {"normalizer": {"type": "Lowercase"}}),
    ("adapter_config.json", {"lora_alpha": 1}),
    ("adapter_config.json", {"use_rslora": True}),
    ("adapter_config.json", {"init_lora_weights": "olora"}),
]
"""Settings that may change a score."""


def saved_adapter(base: Path, folder: Path) -> Path:
    """Save an adapter with random weights for a model."""
    torch.manual_seed(3)
    lora = LoraConfig(target_modules=["query", "value"], init_lora_weights=False)
    get_peft_model(AutoModel.from_pretrained(base), lora).save_pretrained(str(folder))
    tiny.change_json(folder / "adapter_config.json", init_lora_weights=True)
    return folder


@pytest.fixture(scope="module")
def base_and_adapter(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny model, and an adapter of it."""
    base = tiny.save_encoder("bert", tmp_path_factory.mktemp("models") / "bert")
    return base, saved_adapter(base, base.parent / "adapter")


def scored(base: Path, adapter: Path) -> tuple[str, list[float]]:
    """Return the fingerprints of a model and an adapter, and their scores."""
    settings: dict[str, Any] = {"layer": 2, "centering": "none"}
    with twmd_registry.load("twmd", model=str(base), adapter=str(adapter), **settings) as scorer:
        scores = scorer.score(["the cat sat on a mat", "a dog"], ["a cat ran", "the dog ran over it"]).scores
    return f"{fingerprint(base)} {adapter_content(adapter)}", list(scores)


STRANGE: dict[str, tuple[Any, ...]] = {
    "dtype": ("bfloat16",),
    "torch_dtype": ("float16",),
    "padding": (None, {"strategy": {"Fixed": 9}, "direction": "Left", "pad_id": 0, "pad_type_id": 0, "pad_token": "a"}),
    "truncation": (None, {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Left"}),
    "max_length": (3,),
    "padding_side": ("left",),
    "use_cache": (False, True),
    "inference_mode": (False,),
}
"""Other values of settings that cannot change a score; a name for the rest."""


def test_neutral_settings_change_neither_fingerprint_nor_score(
    base_and_adapter: tuple[Path, Path], tmp_path: Path
) -> None:
    """Every setting has each of its values in turn, and is missing in the last round; a round is scored once."""
    content, scores = scored(*base_and_adapter)
    base, adapter = (shutil.copytree(folder, tmp_path / folder.name) for folder in base_and_adapter)
    for turn in (0, 1, None):
        for file, keys in NEUTRAL.items():
            path = (adapter if file.startswith("adapter") else base) / file
            for key, values in keys.items():
                choices = values if ANY not in values else STRANGE.get(key, ("something",))
                settings = json.loads(path.read_text(encoding="utf-8"))
                settings.pop(key, None)
                if turn is not None:
                    settings[key] = choices[turn % len(choices)]
                path.write_text(json.dumps(settings, indent=3), encoding="utf-8")
            assert f"{fingerprint(base)} {adapter_content(adapter)}" == content, (file, turn)
        assert scored(base, adapter) == (content, scores), turn


def test_settings_that_may_change_a_score_change_the_fingerprint(
    base_and_adapter: tuple[Path, Path], tmp_path: Path
) -> None:
    for number, (file, values) in enumerate(MOVING):
        is_adapter = file.startswith("adapter")
        folder = shutil.copytree(base_and_adapter[is_adapter], tmp_path / str(number))
        content = adapter_content if is_adapter else fingerprint
        before = content(folder)
        tiny.change_json(folder / file, **values)
        assert content(folder) != before, values


def test_tensors_are_identified_by_name_format_shape_and_bytes(tmp_path: Path) -> None:
    x = torch.arange(6, dtype=torch.float32)
    tensors = {"a": x, "b": x + 1}
    variants: list[dict[str, torch.Tensor]] = [
        tensors,
        {"a": x + 1, "b": x},
        {"a": x, "c": x + 1},
        {"a": x.view(2, 3), "b": x + 1},
        {"a": x.to(torch.int32), "b": x + 1},
        {"a": x},
        tensors | {"position_ids": torch.arange(1, 4)},
    ]
    equal = [tensors, tensors | {"position_ids": torch.arange(4)[None]}]
    found = []
    for number, content in enumerate([*equal, *variants[1:]]):
        path = tmp_path / f"{number}.safetensors"
        save_file(content, path, {"format": "pt", "note": str(number)})
        found.append(tensors_sha256([path]))
    assert found[0] == found[1]
    assert len(set(found)) == len(variants)
    for name, tensor in tensors.items():
        save_file({name: tensor}, tmp_path / f"{name}.safetensors")
    assert tensors_sha256([tmp_path / "b.safetensors", tmp_path / "a.safetensors"]) == found[0]
    for damaged in (b"", b"{}", (tmp_path / "0.safetensors").read_bytes()[:-1]):
        path.write_bytes(damaged)
        assert tensors_sha256([path]) not in found


def test_saved_copy_of_an_adapter_has_its_name(base_and_adapter: tuple[Path, Path], tmp_path: Path) -> None:
    base, adapter = base_and_adapter
    network = PeftModel.from_pretrained(AutoModel.from_pretrained(base), str(adapter))
    network.save_pretrained(str(tmp_path))
    assert digest(tmp_path / "adapter_config.json") != digest(adapter / "adapter_config.json")
    assert adapter_content(tmp_path) == adapter_content(adapter)


def test_known_tokenizers_have_the_recorded_content() -> None:
    for name in SHORT_NAMES:
        path = find_model(name).folder / "tokenizer.json"
        assert TOKENIZERS[digest(path)] == json_sha256(settings_of(path))


def test_packaged_files_match_the_hub() -> None:
    # git's names of the files at revision 1110a243 of sentence-transformers/all-MiniLM-L6-v2
    published = {
        "config.json": "72b987fd805cfa2b58c4c8c952b274a11bfd5a00",
        "tokenizer.json": "cb202bfe2e3c98645018a6d12f182a434c9d3e02",
        "tokenizer_config.json": "c79f2b6a0cea6f4b564fed1938984bace9d30ff0",
    }
    assert (packaged := embedded_folder()) is not None
    assert {name: blob_of((packaged / name).read_bytes()) for name in published} == published
    assert digest(packaged / "model.safetensors") == (
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    )
