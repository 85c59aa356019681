from __future__ import annotations

import itertools

import numpy as np
import pytest
from twmd_registry.metaeval.systems import system_level

from tests.metaeval.test_agreement import campaign
from tests.metaeval.test_correlation import VECTORS
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.agreement import draw


def means(values: np.ndarray, rated: RatedSegments, group: str) -> list[float]:
    names, systems = np.array(rated.group), np.array(rated.system)
    return [
        float(values[(names == group) & (systems == name)].mean())
        for name in sorted(set(systems[names == group].tolist()))
    ]


@pytest.mark.parametrize("statistic", VECTORS)
def test_systems_are_compared_by_their_means_within_groups(statistic: str) -> None:
    scores, rated = campaign(noise=60)
    found = system_level(statistic, scores, rated, resamples=100)
    own = {group: (means(scores, rated, group), means(rated.ratings, rated, group)) for group in ("g0", "g1")}
    assert [one.value for one in found.agreement.groups] == pytest.approx(
        [VECTORS[statistic](*both) for both in own.values()]
    )
    assert found.agreement.n == len(found.systems) == 10
    alike = [(x[i] - x[j]) * (y[i] - y[j]) > 0 for x, y in own.values() for i, j in itertools.combinations(range(5), 2)]
    assert 0 < sum(alike) < len(alike)
    assert found.accuracy.value == pytest.approx(sum(alike) / len(alike))
    assert found.accuracy.pairs == len(alike) == 20


def test_the_accuracys_interval_is_the_loop_over_drawn_systems() -> None:
    scores, rated = campaign(noise=60)
    found = system_level("pearson", scores, rated, resamples=80, seed=5)
    counts = np.zeros((80, 2))
    for k, group in enumerate(("g0", "g1")):
        x, y = means(scores, rated, group), means(rated.ratings, rated, group)
        for resample, drawn in enumerate(draw(5, 80, np.random.default_rng([5, k])).T):
            chosen = np.repeat(np.arange(5), drawn).tolist()
            pairs = [(i, j) for i, j in itertools.combinations(chosen, 2) if i != j]
            counts[resample] += [sum((x[i] - x[j]) * (y[i] - y[j]) > 0 for i, j in pairs), len(pairs)]
    assert (found.accuracy.low, found.accuracy.high) == pytest.approx(
        np.percentile(counts[:, 0] / counts[:, 1], [2.5, 97.5])
    )


def test_a_tie_of_either_is_not_alike() -> None:
    rated = RatedSegments(["g"] * 4, [], [], np.array([1.0, 1.0, 2.0, 3.0]), 0, None, ["a", "b", "c", "d"])
    assert system_level("pearson", [1, 1, 2, 2], rated, resamples=0).accuracy == (4 / 6, None, None, 6)


def test_given_ratings_take_the_place_of_means_and_gaps_are_named() -> None:
    scores, rated = campaign(groups=1)
    given = {"s0": 5.0, "s1": 4.0, "s2": 3.0, "s3": 2.5, "s9": 1.0}
    with pytest.warns(TwmdWarning) as warned:
        found = system_level("pearson", scores, rated, given, resamples=0)
    assert [str(one.message) for one in warned] == [
        "1 systems have no rating and are left out: s4.",
        "1 systems have no segment and are left out: s9.",
    ]
    assert [one.rating for one in found.systems] == [5.0, 4.0, 3.0, 2.5]
    assert found.agreement.value == pytest.approx(
        VECTORS["pearson"](means(scores, rated, "g0")[:4], [5.0, 4.0, 3.0, 2.5])
    )


def test_a_system_that_lacks_segments_is_named() -> None:
    scores, rated = campaign(groups=1)
    kept = np.ones(len(scores), dtype=bool)
    kept[[i for i, name in enumerate(rated.system or []) if name == "s2"][:3]] = False
    rows = np.flatnonzero(kept)
    fewer = RatedSegments(
        ["g0"] * len(rows), [], [], rated.ratings[rows], 0, None, [(rated.system or [])[i] for i in rows]
    )
    with pytest.warns(TwmdWarning, match=r"g0: 1 of 5 systems have fewer than 12 segments, .*: s2 \(9\)"):
        assert system_level("kendall", scores[rows], fewer).systems[2].n == 9


def test_what_cannot_be_is_refused() -> None:
    scores, rated = campaign()
    with pytest.raises(SpecError, match="not by darr over group"):
        system_level("darr", scores, rated)
    with pytest.raises(SpecError, match="not by pearson over item"):
        system_level("pearson", scores, rated, averaging="item")
    with pytest.raises(InputError, match="ranking systems needs the system of every segment"):
        system_level("pearson", scores, rated._replace(system=None))
    with pytest.raises(InputError, match="these systems are in several groups: s0, s1, s2, s3, s4; select one group"):
        system_level("pearson", scores, rated, {"s0": 1.0})
    with (
        pytest.raises(InputError, match="no system of the data is rated; expected some of s0, s1"),
        pytest.warns(TwmdWarning),
    ):
        system_level("pearson", scores, rated, {}, averaging="none")
    two = RatedSegments(["g"] * 4, [], [], np.arange(4.0), 0, None, ["a", "a", "b", "b"])
    with pytest.raises(InputError, match=r"pearson is undefined everywhere: g \(2 segments: 3 or more"):
        system_level("pearson", np.arange(4.0), two)
