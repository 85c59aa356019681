"""Ensembles: the mean of their members, in every interface."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twmd_registry
from twmd_registry.engine.baseline import BASELINE
from twmd_registry.engine.scorer import Scorer
from twmd_registry.models.files import packaged_adapters
from twmd_registry.models.fitted import save
from twmd_registry.registry.spec import spec_with_keys

PREDICTIONS = ["the cat sat on the mat", "it rains", "nobody answered the door"]
REFERENCES = [
    ["a cat was sitting on the mat", "the dog"],
    ["it is raining"],
    ["the door stayed shut", "no one opened", "a bell"],
]


def test_ensemble_score_of_a_segment_is_the_weighted_mean_of_its_members() -> None:
    members = {
        "stsscore": 3.0,
        "bertscore_centered;output=recall": 1.0,
        "twmd;multiref=mean": 0.5,
        "twmd;centering=batch;centering_size=2": 2.0,
        "twmd;dtype=bfloat16": 1.0,
    }
    name = ",".join(f"{weight}*{member}" for member, weight in members.items())
    found = twmd_registry.load(f"ensemble({name})").score(PREDICTIONS, REFERENCES)
    each = [Scorer(spec_with_keys(member)).score(PREDICTIONS, REFERENCES).scores for member in members]
    np.testing.assert_allclose(found.scores, np.average(each, axis=0, weights=[*members.values()]), atol=1e-12)
    assert found.score == pytest.approx(np.mean(found.scores))


def test_file_of_one_member_is_not_used_for_another(tmp_path: Path) -> None:
    adapter = shutil.copytree(packaged_adapters() / "stsb-siamese", tmp_path / "own")
    path = save(
        BASELINE, twmd_registry.load("sbert").fit_baseline(["a heron", "some bread", "rain"], pairs=6).content, tmp_path
    )
    rescaled = "bertscore_centered;preset=embedded;centering=none;baseline=00009f652bda"
    cases: list[tuple[str, dict[str, Any]]] = [
        (f"stsscore,stsscore;adapter={adapter};scale=4", {"adapter": str(adapter)}),
        (f"sbert;baseline={path},{rescaled}", {"baseline": str(path)}),
    ]
    for members, parts in cases:
        found = twmd_registry.load(f"ensemble({members})").score(PREDICTIONS, REFERENCES)
        again = twmd_registry.load(str(found.signature), **parts).score(PREDICTIONS, REFERENCES)
        assert again.scores == pytest.approx(found.scores, abs=1e-6)
