"""What a difference of scores means: the fit against simulated campaigns, and what is printed and recorded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import twmd_registry
from tests.conftest import Run
from tests.rated_files import TEXTS, system_rows, write_rows
from twmd_registry.errors import InputError, ModelError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.delta_accuracy import (
    COMPARISON,
    DELTA_ACCURACY,
    estimate,
    fit_delta_accuracy,
    fit_spread,
    list_comparisons,
    read_delta_accuracy,
)
from twmd_registry.models.fitted import FittedPart, save
from twmd_registry.record.content import read_record
from twmd_registry.registry.spec import make_spec


def simulate(
    seed: int, *, systems: int = 12, items: int = 400, s: float = 0.02, t: float = 0.3
) -> tuple[list[float], RatedSegments]:
    """Return scores that differ from people's opinion of a system by s / sqrt(2), and of a segment by t / sqrt(2)."""
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
    with pytest.raises(InputError, match="comparisons of systems need 5 systems with segments in common"):
        list_comparisons(scores, rated)
    with pytest.raises(InputError, match="fit of accuracy needs the system of every segment"):
        list_comparisons(scores, rated._replace(system=None))


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> FittedPart[np.ndarray]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twmd_registry.metaeval.delta_accuracy.RESAMPLES", 10)
        fitted = fit_delta_accuracy(make_spec("sbert"), {str(seed): simulate(seed) for seed in range(12)})
    return read_delta_accuracy(save(DELTA_ACCURACY, fitted, tmp_path_factory.mktemp("fitted")))


def test_stated_share_is_the_share_seen_in_other_campaigns(part: FittedPart[np.ndarray]) -> None:
    others = np.concatenate([list_comparisons(*simulate(seed)) for seed in range(100, 120)])
    s, t = part.content[0]
    shares = stats.norm.cdf(others["difference"] / np.hypot(s, t / np.sqrt(others["segments"])))
    for low, high in ((0.5, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.0)):
        inside = (shares >= low) & (shares <= high)
        assert abs(shares[inside].mean() - others["agreed"][inside].mean()) < 0.05


def test_estimate_grows_with_difference_and_segments_from_one_half(part: FittedPart[np.ndarray]) -> None:
    assert estimate(part, 0.0, 100).share == 0.5
    assert estimate(part, 0.01, 100).share < estimate(part, 0.02, 100).share < estimate(part, 0.02, 1000).share
    own = estimate(part, -0.02, 100)
    assert own == estimate(part, 0.02, 100)
    assert own.low < own.share < own.high
    s, t = part.content[0]
    assert own.share == pytest.approx(stats.norm.cdf(0.02 / np.sqrt(s**2 + t**2 / 100)))


@pytest.fixture
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWMD_HOME", str(folder / "home"))
    rows = system_rows()
    write_rows(Path("rated.jsonl"), rows)
    Path("ref.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    for k in (0, 4):
        lines = [str(row["prediction"]) for row in rows if row["rating"] == k]
        Path(f"s{k}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_score_says_what_a_difference_means_and_the_record_keeps_it(files: None, run: Run) -> None:
    systems = "ref.txt -i s0.txt s4.txt -m sbert chrf -q"
    assert "people agree" not in run(f"score {systems}")[1]
    path = run("fit-accuracy sbert --data table:rated.jsonl -q")[1].strip()
    part = read_delta_accuracy(Path(path))
    assert (part.about["systems"], part.about["data"][0].partition("@")[0]) == (5, "rated.jsonl")
    printed = run(f"score {systems} --record record.json")[1]
    (line,) = (line for line in printed.splitlines() if "people agree" in line)
    assert line.startswith("sbert: s4.txt is better than s0.txt; people agree in ")
    first, second = (system.results[0] for system in read_record("record.json").systems)
    assert first.accuracy is None
    assert second.accuracy == estimate(part, second.score - first.score, len(TEXTS))
    assert json.loads(run(f"score {systems} --format json")[1])[2]["accuracy"]["fit"] == part.hash
    for other in (f"ref.txt {systems}", f"{systems} --set layer=2"):  # nothing was fitted for two references, or this
        status, printed, _ = run(f"score {other}")
        assert (status, "people agree" in printed) == (0, False)


def test_damaged_file_is_named(files: None, run: Run) -> None:
    DELTA_ACCURACY.home.mkdir(parents=True)
    path = DELTA_ACCURACY.home / DELTA_ACCURACY.name("0" * 12)
    for content in (20_000 * "[", '{"metric": "sbert"}'):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ModelError, match="is not as 'twmd fit-accuracy' wrote it: remove it, or fit it again"):
            read_delta_accuracy(path)
    status, _, err = run("score ref.txt -i s0.txt s4.txt -m sbert")
    assert (status, "remove it, or fit it again" in err) == (0, True)
    assert twmd_registry.score(["a"], ["a"], "sbert").score > 0.99
