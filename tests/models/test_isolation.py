"""A model's fingerprint covers every file that can affect a score. Other files are not read."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model
from transformers import AutoModel, BertTokenizerFast

import twmd_registry
from tests import tiny
from twmd_registry.errors import ModelError
from twmd_registry.models.files import ADAPTER_FILES, find_model
from twmd_registry.models.fingerprint import fingerprint

PREDICTIONS = ["the cat sat on the mat", "it ran in rain"]
REFERENCES = ["a cat sat over a mat", "the dog ran today"]


FILE_NAME = re.compile(r'"([\w.-]+\.(?:json|jinja|txt|model|bin|safetensors|codes|spm|pt))"')


def score(folder: Path | str, **keys: Any) -> list[float]:
    with twmd_registry.load("twmd", model=str(folder), layer=tiny.DEPTH, centering="none", **keys) as twmd:
        return twmd.score(PREDICTIONS, REFERENCES).scores


def library_file_names() -> list[str]:
    """Return every file name that transformers, tokenizers and peft define or list as a vocabulary."""
    names = set[str]()
    for package in (transformers, peft):
        root = Path(str(package.__file__)).parent
        for pattern in ("*.py", "utils/*.py", "models/*/tokenization_*.py", "tuners/*/*.py"):
            for path in root.glob(pattern):
                names |= set(FILE_NAME.findall(path.read_text("utf-8")))
    return sorted(names)


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Contents that change the score if a library reads them, by type of file."""
    folder = tiny.save_encoder("bert", tmp_path_factory.mktemp("models") / "other", seed=7)
    torch.manual_seed(3)
    lora = LoraConfig(target_modules=["query", "value"], init_lora_weights=False)
    get_peft_model(AutoModel.from_pretrained(folder), lora).save_pretrained(str(folder / "adapter"))
    words = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", *reversed(tiny.WORDS)]
    written = {
        "added_tokens.json": {"cat": 20},
        "special_tokens_map.json": {"additional_special_tokens": ["cat"], "unk_token": "cat"},
        "model.safetensors.index.json": {
            "metadata": {},
            "weight_map": {"embeddings.word_embeddings.weight": "other.safetensors"},
        },
        ".json": {word: i for i, word in enumerate(words)},
    }
    return {
        **{name: (folder / "adapter" / name).read_bytes() for name in ADAPTER_FILES},
        **{name: json.dumps(content).encode() for name, content in written.items()},
        ".safetensors": (folder / "model.safetensors").read_bytes(),
        "": "\n".join(words).encode(),
    }


def contents(strangers: dict[str, bytes], name: str) -> bytes:
    return strangers.get(name) or strangers.get(Path(name).suffix) or strangers[""]


def test_fingerprint_covers_every_file_that_affects_a_score(
    bert: str, strangers: dict[str, bytes], tmp_path: Path
) -> None:
    names = library_file_names()
    assert {"added_tokens.json", "special_tokens_map.json", "vocab.txt", "adapter_model.bin"} <= set(names)
    before = fingerprint(Path(bert))
    covered, ignored = set[str](), set[str]()
    for number, name in enumerate(names):
        folder = shutil.copytree(bert, tmp_path / f"model-{number}")
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_bytes(contents(strangers, name))
        (ignored if fingerprint(folder) == before else covered).add(name)
    assert {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"} == covered
    folder = shutil.copytree(bert, tmp_path / "all")
    for name in ignored | {"other.safetensors"}:
        (folder / name).write_bytes(contents(strangers, name))
    assert find_model(str(folder)).fingerprint == before
    assert score(folder) == score(bert)


def test_added_tokens_of_an_old_vocabulary_are_in_its_fingerprint(tmp_path: Path) -> None:
    folder = tiny.save_encoder("bert", tmp_path / "model")
    (folder / "tokenizer.json").unlink()
    # leaves a row of the network for an added token
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *tiny.WORDS[:-2]]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    settings = json.dumps({"tokenizer_class": BertTokenizerFast.__name__})
    (folder / "tokenizer_config.json").write_text(settings, encoding="utf-8")
    before, scores = fingerprint(folder), score(folder)
    (folder / "added_tokens.json").write_text(json.dumps({"sat on": 9}), encoding="utf-8")
    assert fingerprint(folder) != before
    assert score(folder) != scores


def test_version_specific_tokenizer_is_refused(bert: str, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "model")
    shutil.copy(folder / "tokenizer.json", folder / "tokenizer.4.0.json")
    tiny.change_json(folder / "tokenizer_config.json", fast_tokenizer_files=["tokenizer.4.0.json"])
    with pytest.raises(ModelError, match="the tokenizer of .* cannot be loaded"):
        score(folder)


def test_adapter_is_loaded_only_from_its_hashed_files(bert: str, strangers: dict[str, bytes], tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    for name in ADAPTER_FILES:
        (adapter / name).write_bytes(strangers[name])
    before = score(bert, adapter=str(adapter))
    for name in set(library_file_names()) - set(ADAPTER_FILES):
        (adapter / name).write_bytes(contents(strangers, name))
    assert before == score(bert, adapter=str(adapter)) != score(bert)
