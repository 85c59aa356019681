"""Agreement over parts and systems, against loops over parts and resamples."""

from __future__ import annotations

import itertools
import math
from typing import Any, get_args

import numpy as np
import pytest

from tests.metaeval.pairwise import correlate_pairs
from tests.metaeval.test_correlation import VECTORS
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.metaeval import correlation
from twmd_registry.metaeval.agreement import Averaging, agreement, draw, interval, system_agreement
from twmd_registry.metaeval.correlation import correlate


def make_campaign(
    seed: int = 0, *, groups: int = 2, items: int = 12, noise: float = 10.0
) -> tuple[np.ndarray, RatedSegments]:
    """Return scores and ratings of five systems on items of several language pairs, in a shuffled order."""
    rng = np.random.default_rng(seed)
    rows = [(f"g{g}", f"g{g}:{i}", f"s{s}") for g in range(groups) for i in range(items) for s in range(5)]
    rows = [rows[k] for k in rng.permutation(len(rows))]
    ratings = np.array([40 + 5 * int(system[1:]) + rng.normal(0, 15) for _, _, system in rows]).round()
    scores = ratings + rng.normal(0, noise, len(rows))
    group, item, system = (list(column) for column in zip(*rows, strict=True))
    return scores, RatedSegments(group, [""] * len(rows), [""] * len(rows), ratings, 0, item, system)


@pytest.mark.parametrize("averaging", get_args(Averaging))
def test_average_equals_the_loop_over_parts(averaging: Averaging) -> None:
    scores, rated = make_campaign()
    columns = {"none": ["all"] * len(scores), "group": rated.group, "item": rated.item, "system": rated.system}
    column = np.array(columns[averaging])
    for statistic, reference in VECTORS.items():
        result = agreement(statistic, scores, rated, averaging=averaging, resamples=50)
        parts = {name: column == name for name in sorted(set(column.tolist()))}
        expected = {name: reference(scores[rows], rated.ratings[rows]) for name, rows in parts.items()}
        assert {name: part.value for name, part in result.groups.items()} == pytest.approx(expected)
        assert {name: part.n for name, part in result.groups.items()} == {n: rows.sum() for n, rows in parts.items()}
        assert list(result.groups) == list(parts)
        assert result.value == pytest.approx(np.mean(list(expected.values())))
        assert (result.n, result.undefined) == (len(scores), ())
        assert (result.low or 1) < result.value < (result.high or -1)


@pytest.mark.parametrize("statistic", ["darr", "acc_eq", "pdp"])
def test_pairs_are_compared_within_items_of_a_group(statistic: str) -> None:
    scores, rated = make_campaign()
    names, items = np.array(rated.group), np.array(rated.item)
    result = agreement(statistic, scores, rated, resamples=100)
    expected = {
        name: correlate_pairs(statistic, scores[names == name], rated.ratings[names == name], items[names == name])
        for name in ("g0", "g1")
    }
    assert {name: part.value for name, part in result.groups.items()} == pytest.approx(expected)
    assert all((part.epsilon is not None) == (statistic == "acc_eq") for part in result.groups.values())
    assert (result.low or 1) < result.value < (result.high or -1)
    pooled = agreement(statistic, scores, rated, averaging="item", resamples=0)
    assert (pooled.low, pooled.high, pooled.groups["all"].low) == (None, None, None)


@pytest.mark.parametrize("statistic", VECTORS)
def test_interval_equals_percentiles_of_a_loop_over_resamples(statistic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twmd_registry.metaeval.agreement._BLOCK", 7 * 60)
    scores, rated = make_campaign()
    names, values = np.array(rated.group), {}
    for k, name in enumerate(("g0", "g1")):
        metric, human = scores[names == name], rated.ratings[names == name]
        weights = draw(len(metric), 60, np.random.default_rng([7, k]))
        values[name] = [VECTORS[statistic](np.repeat(metric, drawn), np.repeat(human, drawn)) for drawn in weights.T]
    result = agreement(statistic, scores, rated, resamples=60, seed=7)
    for part, resampled in ((result, np.mean(list(values.values()), axis=0)), (result.groups["g1"], values["g1"])):
        assert (part.low, part.high) == pytest.approx(np.percentile(resampled, [2.5, 97.5]))


def test_seed_fixes_the_draws_of_whole_items() -> None:
    scores, rated = make_campaign(items=30)
    result = agreement("kendall", scores, rated, averaging="item", seed=3)
    values = np.array([part.value for part in result.groups.values()])
    means = [np.repeat(values, drawn).mean() for drawn in draw(len(values), 1000, np.random.default_rng(3)).T]
    assert (result.low, result.high) == pytest.approx(np.percentile(means, [2.5, 97.5]))
    assert {(part.low, part.high) for part in result.groups.values()} == {(None, None)}
    scores, rated = make_campaign()
    first = agreement("kendall", scores, rated, resamples=50)
    assert first == agreement("kendall", scores, rated, resamples=50)
    assert first.low != agreement("kendall", scores, rated, resamples=50, seed=1).low
    broken = np.where(np.array(rated.group) == "g0", 1.0, scores)
    with pytest.warns(TwmdWarning, match="undefined for 1 of 2"):
        assert agreement("kendall", broken, rated, resamples=50).groups == {"g1": first.groups["g1"]}


def test_group_without_a_value_is_named_and_left_out() -> None:
    ratings = np.arange(11.0) ** 2 % 7
    rated = RatedSegments(["a"] * 4 + ["b"] * 5 + ["c"] * 2, [], [], ratings, 0)
    scores = np.array([1, 2, 3, 5, 4, 4, 4, 4, 4, 0, 1], dtype=float)
    reasons = r"for 2 of 3, .*: b \(5 values: the scores are constant \(4\)\), c \(2 values: .*found 2"
    with pytest.warns(TwmdWarning, match=reasons):
        result = agreement("pearson", scores, rated)
    assert [(name, n) for name, n, _ in result.undefined] == [("b", 5), ("c", 2)]
    assert result.value == pytest.approx(correlate("pearson", scores[:4], ratings[:4]))
    assert result.n == 4
    assert [part["name"] for part in result.as_dict()["undefined"]] == ["b", "c"]
    with pytest.raises(InputError, match="pearson is undefined everywhere: a .*, b .*, c "):
        agreement("pearson", np.ones(11), rated)
    scores, rated = make_campaign(items=20, groups=1)
    scores = np.where(np.array([int(item.split(":")[1]) < 15 for item in rated.item or []]), 0.0, scores)
    with pytest.warns(TwmdWarning, match="for 15 of 20, .* and 5 more"):
        assert len(agreement("spearman", scores, rated, averaging="item").undefined) == 15


@pytest.mark.filterwarnings("ignore:.*not reliable")
def test_interval_excludes_undefined_resamples() -> None:
    def correlate_few(ratings: list[float]) -> tuple[float | None, float | None]:
        rated = RatedSegments(["a"] * len(ratings), [], [], np.array(ratings), 0)
        result = agreement("pearson", np.arange(len(ratings)), rated)
        return result.low, result.high

    low, high = correlate_few([1.0, 3.0, 2.0, 2.5])
    assert -1 <= (low or 9) < (high or -9) <= 1
    # Most resamples of three rows hold two of them, which always lie on a line.
    assert correlate_few([1.0, 3.0, 2.0]) == (None, None)
    assert interval(np.array([math.nan, 2.0, 2.0])) == (2, 2)
    assert interval(np.array([math.nan, 2.0])) == (None, None)
    alike, unlike = [3.0, 2.0, 1.0, 0.0] * 3, [0.0, 1.0]
    group, item = ["many"] * 12 + ["one"] * 2, [f"i{k // 2}" for k in range(14)]
    rated = RatedSegments(group, [], [], np.array([1.0, 0.0] * 7), 0, item)
    result = agreement("accuracy", np.array(alike + unlike), rated)
    assert (result.value, result.groups["many"].value, result.groups["one"].low) == (0.5, 1.0, None)
    assert (result.low, result.high) == (0.5, 0.5)


@pytest.mark.parametrize("statistic", ["acc_eq", "pdp", "tau_eq"])
def test_pairs_are_within_an_item_a_system_or_all(statistic: str) -> None:
    scores, rated = make_campaign()
    labels = {"item": rated.item, "system": rated.system, "none": ["x"] * len(scores)}
    for averaging, label in labels.items():
        result = agreement(statistic, scores, rated, averaging=averaging, resamples=20)
        assert result.value == pytest.approx(correlate_pairs(statistic, scores, rated.ratings, label), abs=1e-12)
        assert list(result.groups) == ["all"]
        assert (result.low is None) == (averaging == "none")


ITEM = "acc_eq needs the item of every .* table:FILE,item=COLUMN"
BARE: dict[str, Any] = {"item": None, "system": None}


@pytest.mark.parametrize(
    ("statistic", "averaging", "changes", "words"),
    [
        *(
            ("pearson", level, BARE, f"averaging={level} needs the {level} of every segment")
            for level in ("item", "system")
        ),
        *(("spa", level, {}, "spa compares systems; expected averaging=none") for level in ("item", "system")),
        ("acc_eq", "group", BARE, ITEM),
        ("acc_eq", "none", {}, "pairs of segments"),
    ],
)
def test_impossible_request_is_refused(
    statistic: str, averaging: str, changes: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(correlation, "MAX_PAIRS", 2)
    scores, rated = make_campaign()
    with pytest.raises(SpecError if statistic == "spa" else InputError, match=words):
        agreement(statistic, scores, rated._replace(**changes), averaging=averaging)


def mean_by_system(values: np.ndarray, rated: RatedSegments, group: str) -> list[float]:
    names, systems = np.array(rated.group), np.array(rated.system)
    return [float(values[(names == group) & (systems == f"s{k}")].mean()) for k in range(5)]


def test_systems_are_compared_by_their_means_within_groups() -> None:
    scores, rated = make_campaign(noise=60)
    groups = {
        name: [mean_by_system(values, rated, name) for values in (scores, rated.ratings)] for name in ("g0", "g1")
    }
    counts, alike, pairs = np.zeros((80, 2)), 0, list(itertools.combinations(range(5), 2))
    for k, (x, y) in enumerate(groups.values()):
        orders_alike = {(i, j): (x[i] - x[j]) * (y[i] - y[j]) > 0 for i, j in itertools.product(range(5), repeat=2)}
        alike += sum(orders_alike[pair] for pair in pairs)
        for resample, drawn in enumerate(draw(5, 80, np.random.default_rng([5, k])).T):
            chosen = itertools.combinations(np.repeat(np.arange(5), drawn).tolist(), 2)
            outcomes = [orders_alike[i, j] for i, j in chosen if i != j]
            counts[resample] += [sum(outcomes), len(outcomes)]
    for statistic, reference in VECTORS.items():
        ranked, accuracy = system_agreement(statistic, scores, rated, resamples=80, seed=5)
        expected = {name: reference(*means) for name, means in groups.items()}
        assert {name: part.value for name, part in ranked.groups.items()} == pytest.approx(expected)
        assert (ranked.n, accuracy.n) == (10, 20)
        assert accuracy.value == pytest.approx(alike / 20)
        assert 0 < alike < 20
        ends = np.percentile(counts[:, 0] / counts[:, 1], [2.5, 97.5])
        assert (accuracy.low, accuracy.high) == pytest.approx(ends)


def test_soft_pairwise_accuracy_is_averaged_over_groups() -> None:
    scores, rated = make_campaign(noise=60)
    names, items, systems = (np.array(column) for column in (rated.group, rated.item, rated.system))
    ranked, accuracy = system_agreement("spa", scores, rated, resamples=80)
    expected = {
        name: correlate_pairs("spa", scores[in_group], rated.ratings[in_group], items[in_group], systems[in_group])
        for name in ("g0", "g1")
        for in_group in [names == name]
    }
    assert {name: part.value for name, part in ranked.groups.items()} == expected
    assert ranked.value == pytest.approx(np.mean(list(expected.values())))
    assert ranked.n == 120
    assert (ranked.low or 1) < ranked.value < (ranked.high or 0)
    assert accuracy == system_agreement("pearson", scores, rated, resamples=80)[1]


def test_system_ratings_replace_means_and_ties_lower_the_accuracy() -> None:
    rated = RatedSegments(["g"] * 4, [], [], np.array([1.0, 1.0, 2.0, 3.0]), 0, None, ["a", "b", "c", "d"])
    _, accuracy = system_agreement("pearson", [1, 1, 2, 2], rated, resamples=0)
    assert (accuracy.value, accuracy.low, accuracy.high, accuracy.n) == (4 / 6, None, None, 6)
    scores, rated = make_campaign(groups=1)
    means = mean_by_system(rated.ratings, rated, "g0")
    system_ratings = {("g0", "s1"): 900.0, ("g0", "s3"): -900.0}
    ranked, accuracy = system_agreement("pearson", scores, rated._replace(system_ratings=system_ratings), resamples=0)
    human = [means[0], 900.0, means[2], -900.0, means[4]]
    metric = mean_by_system(scores, rated, "g0")
    assert ranked.value == pytest.approx(np.corrcoef(metric, human)[0, 1])
    pairs = itertools.combinations(range(5), 2)
    assert accuracy.value == sum((metric[i] - metric[j]) * (human[i] - human[j]) > 0 for i, j in pairs) / 10


def test_systems_without_segments_or_labels_are_named_or_refused() -> None:
    scores, rated = make_campaign(groups=1)
    system = np.array(rated.system)
    rows = np.setdiff1d(np.arange(60), np.flatnonzero(system == "s2")[:3])
    with pytest.warns(TwmdWarning, match=r"g0: 1 of 5 systems have fewer than 12 segments, .*: s2 \(9\)"):
        system_agreement("kendall", scores[rows], select(rated, rows))
    scores, rated = make_campaign()
    for statistic, averaging in (("darr", "group"), ("pearson", "item")):
        with pytest.raises(SpecError, match=f"not by {statistic} over {averaging}"):
            system_agreement(statistic, scores, rated, averaging=averaging)
    with pytest.raises(InputError, match="a ranking of systems needs the system of every segment"):
        system_agreement("pearson", scores, rated._replace(system=None))
    two = RatedSegments(["g"] * 4, [], [], np.arange(4.0), 0, None, ["a", "a", "b", "b"])
    with pytest.raises(InputError, match=r"pearson is undefined everywhere: g \(2 values: "):
        system_agreement("pearson", np.arange(4.0), two)
