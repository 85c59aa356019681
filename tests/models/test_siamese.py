"""Siamese regression models: separate texts, a line on the cosine, an adapter with a head."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import twmd_registry
from tests import tiny
from twmd_registry.errors import ModelError, SpecError, TwmdWarning
from twmd_registry.models.files import HEAD_FILE, find_model, packaged_adapters
from twmd_registry.models.regressor import fit_pairs, load_line, save_line
from twmd_registry.models.sentence import Line
from twmd_registry.registry.options import MetricKeys

PACKAGED = packaged_adapters() / "stsb-siamese"
EMBEDDED = "21de63af9d45"
FIRST = ["a heron waits", "it rained all night long in the old town by the river", "bread"]
SECOND = ["the heron is waiting at the weir", "rain", "the baker sold nine loaves"]


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return shutil.copytree(PACKAGED, tmp_path / "adapter")


def write_line(adapter: Path, weight: float, bias: float, base: str = EMBEDDED) -> None:
    save_line(Line(weight, bias), adapter, base)


def test_score_is_linear_in_the_cosine_and_the_hash_covers_the_line(adapter: Path) -> None:
    before = twmd_registry.load("stsscore", adapter=str(adapter)).spec.adapter
    write_line(adapter, 3.0, -0.5)
    found = twmd_registry.load("stsscore", adapter=str(adapter), scale=2).score(FIRST, SECOND)
    assert found.signature.spec.adapter != before
    with_adapter: dict[str, Any] = {"layer": 6, "special": "all", "centering": "none", "adapter": str(adapter)}
    cosines = twmd_registry.load("sbert", **with_adapter).score(FIRST, SECOND).scores
    assert found.scores == pytest.approx([(3 * cosine - 0.5) / 2 for cosine in cosines], abs=1e-6)


def write_head(**tensors: torch.Tensor) -> Callable[[Path], object]:
    return lambda adapter: save_file(tensors, adapter / HEAD_FILE)


NO_HEAD = "is not the head of a regression model"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda adapter: (adapter / HEAD_FILE).write_bytes(b"nothing"), NO_HEAD),
        (write_head(weight=torch.ones(1, 2), bias=torch.zeros(1)), NO_HEAD),
        (write_head(weight=torch.ones(1, 1)), NO_HEAD),
        (lambda adapter: write_line(adapter, torch.nan, 0), "it gives numbers that are not finite"),
        (lambda adapter: (adapter / HEAD_FILE).unlink(), "has no head.safetensors"),
        (
            lambda adapter: write_line(adapter, 1, 0, "ba9876543210"),
            "with content @ba9876543210, not @21de63af9d45",
        ),
        (
            lambda adapter: tiny.change_json(adapter / "adapter_config.json", base_model_name_or_path="org/other"),
            "was made for org/other, not for sentence-transformers/all-MiniLM-L6-v2",
        ),
    ],
)
def test_damaged_or_foreign_adapter_is_refused(change: Callable[[Path], object], words: str, adapter: Path) -> None:
    change(adapter)
    with pytest.raises(ModelError, match=re.escape(words)):
        twmd_registry.load("stsscore", adapter=str(adapter)).score(["a"], ["b"])
    if "was made for" in words:
        with pytest.raises(ModelError, match=re.escape(words)):
            twmd_registry.load("sbert", adapter=str(adapter), centering="none").score(["a"], ["b"])


@pytest.mark.parametrize("keys", [{"symmetric": True}, {"first": "reference"}, {"activation": "sigmoid"}])
def test_keys_of_cross_encoders_are_refused(keys: MetricKeys) -> None:
    with pytest.raises(SpecError, match=f"{next(iter(keys))}.* has no effect"):
        twmd_registry.load("stsscore", **keys).score(["It rained."], ["The rain fell."])


LONG = "A heron waits at the weir while rain falls on the town. ", "The baker sold nine loaves before the bells rang. "
CUT = [LONG[0] * 9, "rain", LONG[0] * 4 + LONG[1]], [LONG[1], LONG[0] * 9, LONG[0] * 2]


PUBLISHED = [-0.0850472, 0.3887319, 0.9188080]


def test_pairs_are_truncated_longest_first() -> None:
    with pytest.warns(TwmdWarning, match="longer than the limit"):
        scores = twmd_registry.load("stsscore", truncation="cut:20").score(*CUT)
    assert scores.scores == pytest.approx(PUBLISHED, abs=1e-6)
    tokenizer, draw = tiny.tokenizer(), random.Random(1)
    for _ in range(50):
        texts = [" ".join(draw.choices(tiny.WORDS, k=draw.randint(1, 12))) for _ in "ab"]
        limit = draw.randint(5, 24)
        joined = tokenizer(*texts, truncation="longest_first", max_length=limit)
        sizes = np.array([[len(tokenizer(text)["input_ids"]) for text in texts]])
        kept = [joined.sequence_ids().count(side) + 2 for side in (0, 1)]
        assert fit_pairs(sizes, limit + 4 - tokenizer.num_special_tokens_to_add(pair=True)).tolist() == [kept]


def test_padding_on_the_left_changes_nothing(adapter: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(find_model("embedded").folder, tmp_path / "model")
    tiny.change_json(folder / "tokenizer_config.json", padding_side="left")
    save_line(load_line(adapter / HEAD_FILE, EMBEDDED), adapter, find_model(str(folder)).fingerprint)
    found = twmd_registry.load("stsscore", model=str(folder), adapter=str(adapter), scale=5).score(FIRST, SECOND)
    assert found.scores == pytest.approx(twmd_registry.load("stsscore").score(FIRST, SECOND).scores, abs=1e-6)
    with pytest.warns(TwmdWarning, match="longer than the limit"):
        cut = twmd_registry.load(
            "stsscore", model=str(folder), adapter=str(adapter), scale=5, truncation="cut:20"
        ).score(*CUT)
    assert cut.scores == pytest.approx(PUBLISHED, abs=1e-6)
