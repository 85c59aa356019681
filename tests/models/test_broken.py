"""Broken models that a library would load are refused."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import twmd_registry
from tests import tiny
from tests.tiny import change_json
from twmd_registry.errors import ModelError

Change = Callable[[dict[str, torch.Tensor]], object]


def score(folder: Path, metric: str = "sbert", **keys: Any) -> float:
    keys = {"scale": 5} | keys if metric == "stsscore" else {"layer": tiny.DEPTH, "centering": "none"} | keys
    return twmd_registry.load(metric, model=str(folder), **keys).score(["the cat sat"], ["a dog ran"]).score


def save_model(folder: Path, metric: str = "sbert") -> Path:
    """Save a valid model of the type that a metric needs; return its folder."""
    if metric == "stsscore":
        return tiny.save_regressor(folder / "m")
    return tiny.save_encoder("bert", folder / "m")


def change(folder: Path, how: Change) -> Path:
    weights = load_file(folder / "model.safetensors")
    how(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def spoil(weights: dict[str, torch.Tensor]) -> None:
    weights[next(name for name in weights if "layer.1.output.dense.weight" in name)][0, 0] = float("nan")


def blow_up(weights: dict[str, torch.Tensor]) -> None:
    for name in weights:
        if "LayerNorm.weight" in name:
            weights[name] *= 1e5


def drop_a_layer(weights: dict[str, torch.Tensor]) -> None:
    for name in [name for name in weights if "layer.2." in name]:
        del weights[name]


def enlarge_vocabulary(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["model"]["vocab"]["cat"] = 99
    change_json(folder / "tokenizer.json", **tokenizer)


def change_template(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    for special in tokenizer["post_processor"]["special_tokens"].values():
        special["ids"] = [40_000]
    change_json(folder / "tokenizer.json", **tokenizer)


def index_of(folder: Path, shard: Any) -> None:
    """Replace the weights by an index that names a file."""
    (folder / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": shard}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


NOT_FINITE = "gives numbers that are not finite; its weights are damaged"
NO_TOKENIZER = "has no tokenizer: expected tokenizer.json"
REMOTE_CODE = "needs remote code for attention (org/kernel), which is never run"
HUB_KERNELS = find_spec("transformers.integrations.hub_kernels")  # older versions ignore the first key
ATTENTION_KEYS = ["attn_implementation", "_attn_implementation"][0 if HUB_KERNELS else 1 :]
UNREADABLE = "cannot be loaded: its weights file is damaged"
BEYOND = "has token id {}, but its network has ids 0 to 23"
DAMAGES: list[tuple[str, Callable[[Path], object], str]] = [
    *((metric, lambda folder: change(folder, spoil), NOT_FINITE) for metric in ("twmd", "moverscore", "stsscore")),
    *(
        (metric, damage, words)
        for metric in ("sbert", "stsscore")
        for damage, words in (
            (lambda folder: change(folder, drop_a_layer), "lacks 16 of the weights"),
            (lambda folder: (folder / "tokenizer.json").unlink(), NO_TOKENIZER),
            (enlarge_vocabulary, BEYOND.format("99 ('cat')")),
            *(
                (lambda folder, key=key: change_json(folder / "config.json", **{key: "org/kernel"}), REMOTE_CODE)
                for key in ATTENTION_KEYS
            ),
        )
    ),
    ("sbert", lambda folder: os.truncate(folder / "model.safetensors", 1000), UNREADABLE),
    ("sbert", lambda folder: (folder / "model.safetensors").write_text("version https://git-lfs\n"), UNREADABLE),
    ("sbert", lambda folder: change_json(folder / "config.json", intermediate_size=99), "do not have the shapes"),
    ("sbert", lambda folder: change_json(folder / "config.json", layer_norm_eps="x"), "float"),
    ("sbert", lambda folder: change_json(folder / "config.json", hidden_act="nope"), "KeyError: 'nope'"),
    ("sbert", lambda folder: (folder / "tokenizer.json").write_text("{}", encoding="utf-8"), "the tokenizer of"),
    *(
        ("twmd", lambda folder, name=name: change_json(folder / "tokenizer_config.json", **{name: "[NEW]"}), words)
        for name, words in (("cls_token", BEYOND.format("24 ('[NEW]')")), ("pad_token", BEYOND.format("24 ('[NEW]')")))
    ),
    ("twmd", change_template, "has token id 40000 "),
    *(
        (
            metric,
            lambda folder, length=length: change_json(folder / "tokenizer_config.json", model_max_length=length),
            "model_max_length",
        )
        for metric in ("sbert", "stsscore")
        for length in ((-1, 2, True, "512", [512]) if metric == "sbert" else (0,))
    ),
    *(
        (
            metric,
            lambda folder: change_json(folder / "config.json", chunk_size_feed_forward=2),
            "feed_forward): set it to",
        )
        for metric in ("twmd", "stsscore")
    ),
    ("sbert", lambda folder: index_of(folder, "config.json"), "lists 'config.json': expected shards"),
    ("sbert", lambda folder: index_of(folder, "../other/pytorch_model.bin"), "expected shards"),
    ("sbert", lambda folder: index_of(folder, 3), "expected shards"),
]
"""Metrics, damage to a folder, and a part of the error."""


@pytest.mark.parametrize(("metric", "damage", "words"), DAMAGES)
def test_damage_is_reported_in_one_line_with_the_users_folder(
    metric: str, damage: Callable[[Path], object], words: str, tmp_path: Path
) -> None:
    folder = save_model(tmp_path, metric)
    damage(folder)
    with pytest.raises(ModelError, match=re.escape(words)) as caught:
        score(folder, metric)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_number_format_too_small_for_a_model_raises_an_error(tmp_path: Path) -> None:
    folder = change(save_model(tmp_path), blow_up)
    assert -1 <= score(folder) <= 1
    with pytest.raises(ModelError, match="dtype=float16 may be too small for it: try float32"):
        score(folder, dtype="float16")


def test_missing_pooler_does_no_harm(tmp_path: Path) -> None:
    folder = save_model(tmp_path)
    whole = score(folder)
    found = score(change(folder, lambda weights: [weights.pop(f"pooler.dense.{part}") for part in ("weight", "bias")]))
    assert found == pytest.approx(whole, abs=1e-7)


def test_tokenizer_without_a_vocabulary_raises_an_error(tmp_path: Path) -> None:
    folder = tiny.save_encoder("roberta", tmp_path / "m")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    (folder / "vocab.txt").write_text("the\ncat\n", encoding="utf-8")
    of_transformers_4 = "cannot be loaded: expected str, bytes or os.PathLike object"
    message = "only special tokens"
    with pytest.raises(ModelError, match=f"{message}|{of_transformers_4}"):
        _ = twmd_registry.load("twmd", model=str(folder)).signature


def test_revision_of_a_folder_is_refused(tmp_path: Path) -> None:
    folder = save_model(tmp_path)
    with pytest.raises(ModelError, match="has no revision '21de63af9d45'"):
        _ = twmd_registry.load("twmd", model=f"{folder}@21de63af9d45").signature


def test_rewritten_weights_do_not_change_a_loaded_model(tmp_path: Path) -> None:
    folder = save_model(tmp_path)
    with twmd_registry.load("twmd", model=str(folder), layer=2) as scorer:
        before = scorer.score(["the cat sat"], ["a dog ran"]).scores
        weights = folder / "model.safetensors"
        weights.write_bytes(bytes(byte ^ 5 for byte in weights.read_bytes()))
        assert scorer.score(["the cat sat"], ["a dog ran"]).scores == before


def test_folder_can_be_a_path_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = save_model(tmp_path)
    by_text, by_path, by_tilde = (
        twmd_registry.load("sbert", model=model, layer=1, centering="none").score(["the cat"], ["a dog"])
        for model in (str(folder), folder, "~/m")
    )
    assert by_text == by_path == by_tilde
