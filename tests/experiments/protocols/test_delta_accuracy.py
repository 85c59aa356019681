"""The meaning of a difference of scores: the fit on simulated campaigns, and the output."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from experiments.protocols.delta_accuracy import (
    COMPARISON,
    DeltaAccuracy,
    fit_delta_accuracy,
    fit_spread,
    list_comparisons,
)
from tests.conftest import Run
from tests.rated_files import system_rows, write_rows
from twmd_registry.errors import InputError
from twmd_registry.judgments.rated import RatedSegments


def simulate(
    seed: int, *, systems: int = 12, items: int = 400, s: float = 0.02, t: float = 0.3
) -> tuple[list[float], RatedSegments]:
    """Return scores that differ from human ratings by s / sqrt(2) per system and t / sqrt(2) per segment."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(0, 0.03, systems)
    opinion = quality + rng.normal(0, s / np.sqrt(2), systems)
    scores = opinion[:, None] + rng.normal(0, t / np.sqrt(2), (systems, items))
    ratings = np.repeat(quality[:, None], items, axis=1)
    names = [f"s{i}" for i in range(systems) for _ in range(items)]
    numbers = [str(j) for _ in range(systems) for j in range(items)]
    blank = [""] * len(names)
    return scores.ravel().tolist(), RatedSegments(["a"] * len(names), blank, blank, ratings.ravel(), 0, numbers, names)


def test_fit_finds_the_spread_of_a_simulation_of_five_systems_or_more() -> None:
    rng = np.random.default_rng(0)
    segments = rng.choice([50.0, 400.0], 20_000)
    differences = np.abs(rng.normal(0, 0.04, len(segments)))
    p = stats.norm.cdf(differences / np.sqrt(0.02**2 + 0.3**2 / segments))
    agreed = rng.random(len(segments)) < p
    comparisons = np.zeros(len(segments), dtype=COMPARISON)
    comparisons["difference"], comparisons["segments"], comparisons["agreed"] = differences, segments, agreed
    spread = fit_spread(comparisons, np.ones(len(segments)))
    assert spread == pytest.approx((0.02, 0.3), rel=0.1)
    scores, rated = simulate(0, systems=4, items=9)
    with pytest.raises(InputError, match="comparisons of systems need 5 systems"):
        list_comparisons(scores, rated)
    with pytest.raises(InputError, match="fit of accuracy needs the system of every segment"):
        list_comparisons(scores, rated._replace(system=None))


@pytest.fixture(scope="module")
def fit() -> DeltaAccuracy:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.protocols.delta_accuracy.RESAMPLES", 10)
        return fit_delta_accuracy([simulate(seed) for seed in range(12)])


def test_stated_share_equals_the_share_in_other_campaigns(fit: DeltaAccuracy) -> None:
    others = np.concatenate([list_comparisons(*simulate(seed)) for seed in range(100, 120)])
    s, t = fit.spreads[0]
    shares = stats.norm.cdf(others["difference"] / np.hypot(s, t / np.sqrt(others["segments"])))
    for low, high in ((0.5, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.0)):
        inside = (shares >= low) & (shares <= high)
        assert abs(shares[inside].mean() - others["agreed"][inside].mean()) < 0.05


def test_command_prints_the_differences_by_segments_and_share(folder: Path, run: Run) -> None:
    write_rows(Path("rated.jsonl"), system_rows())
    line = "accuracy table:rated.jsonl -m sbert -q"
    found = json.loads(run(f"{line} --format json")[1])
    assert (found["systems"], found["signature"].partition("|")[0]) == (5, "sbert")
    values = [row["difference"] for row in found["differences"]]
    assert values[:4] == sorted(values[:4])
    printed = run(line)[1]
    assert f"{values[0]:.4f}" in printed
    assert found["signature"] in printed
