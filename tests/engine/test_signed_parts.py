"""Local files for a signature must have the signed content, or scoring is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import twmd_registry
from tests import tiny
from twmd_registry.errors import ModelError
from twmd_registry.models.files import embedded_folder
from twmd_registry.registry.names import EMBEDDED_MODEL

TEXTS = ["a cat sat"], ["the cat sat down"]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = embedded_folder()
    if folder is None:
        pytest.skip("the embedded model is not installed")
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize(("name", "change"), [("twmd", "weights"), ("ensemble(twmd,sbert)", "activation")])
def test_model_folder_of_other_content_is_refused_with_both_fingerprints(copy: Path, change: str, name: str) -> None:
    signature = twmd_registry.load(name).signature
    assert twmd_registry.load(signature, model=str(copy)).score(*TEXTS).score > 0
    if change == "weights":
        tiny.flip_last_byte(copy / "model.safetensors")
    else:
        tiny.change_json(copy / "config.json", hidden_act="relu")
    own = twmd_registry.load("twmd", model=str(copy)).spec.fingerprint
    with pytest.raises(ModelError, match=rf"has the content @{own} here, not @21de63af9d45 as requested"):
        twmd_registry.load(signature, model=str(copy)).score(*TEXTS)


def test_folder_of_one_member_leaves_the_other_members_models_to_their_names(bert: str) -> None:
    mixed = twmd_registry.load(f"ensemble(twmd,trwmd;model={bert};layer=1)")
    again = twmd_registry.load(mixed.signature, model=bert)
    assert again.score(*TEXTS).scores == mixed.score(*TEXTS).scores
    assert EMBEDDED_MODEL in again.signature


def test_member_model_named_by_a_question_mark_round_trips(tmp_path: Path) -> None:
    folder = tiny.save_encoder("bert", tmp_path / "?")
    made = twmd_registry.load(f"ensemble(twmd,trwmd;model={folder};layer=1)")
    signature = made.signature
    assert twmd_registry.parse_signature(signature).spec.texts()["members"] in signature
    assert twmd_registry.load(signature, model=str(folder)).score(*TEXTS).scores == made.score(*TEXTS).scores
