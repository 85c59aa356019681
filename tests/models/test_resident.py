"""Tests of parked models, which are moved to the CPU between uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import twmd_registry
from tests import tiny

TEXTS = ["the cat sat", "a dog ran"], ["a cat sat on the mat", "the dog"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_encoder("bert", tmp_path_factory.mktemp("encoder"))


def record_devices(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the devices to which a model's network is moved."""
    devices: list[str] = []
    monkeypatch.setattr(model.network, "to", lambda device: devices.append(str(device)), raising=False)
    return devices


@pytest.mark.parametrize("metric", ["twmd", "stsscore"])
def test_parked_model_returns_to_its_device_at_the_next_score(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = twmd_registry.scorer(metric)
    before = scorer.score(*TEXTS)
    places = record_devices(scorer.backend.model, monkeypatch)
    scorer.park()
    assert places == ["cpu"]
    assert scorer.backend.model.parked
    assert scorer.score(*TEXTS) == before
    assert places == ["cpu", str(scorer.backend.model.device)]
    assert scorer.score(*TEXTS) == before
    assert len(places) == 2


def test_parking_a_model_that_is_not_loaded_does_not_load_it(folder: Path) -> None:
    one = twmd_registry.scorer("twmd", model=str(folder), layer=1)
    one.park()
    assert one.backend.loaded is None


def test_parked_shared_model_is_unparked_by_another_scorer(folder: Path) -> None:
    first, second = (twmd_registry.scorer(name, model=str(folder), layer=1) for name in ("twmd", "trwmd"))
    second.score(*TEXTS)
    first.score(*TEXTS)
    first.park()
    assert second.backend.model.parked
    second.score(*TEXTS)
    assert not first.backend.model.parked


def test_ensemble_parks_its_members(folder: Path) -> None:
    keys = f"model={folder};layer=1"
    both = twmd_registry.scorer(f"ensemble(twmd;{keys},sbert;{keys})")
    before = both.score(*TEXTS)
    both.park()
    assert all(member.backend.model.parked for member in both.members)
    assert both.score(*TEXTS) == before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_parking_frees_the_devices_memory(folder: Path) -> None:
    one = twmd_registry.scorer("twmd", model=str(folder), layer=1, device="cuda")
    before = one.score(*TEXTS)
    used = torch.cuda.memory_allocated()
    one.park()
    assert torch.cuda.memory_allocated() < used
    assert one.score(*TEXTS).scores == pytest.approx(before.scores, abs=1e-5)
    assert torch.cuda.memory_allocated() >= used


def test_scorer_that_nobody_uses_is_released_but_not_at_the_end_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = twmd_registry.scorer("sbert").backend
    loaded = backend.model
    monkeypatch.setattr("twmd_registry.engine.backends.sys", None)  # as the interpreter does at the end
    backend.__del__(lambda: True)
    assert backend.loaded is loaded
    backend.__del__()
    assert backend.loaded is None
