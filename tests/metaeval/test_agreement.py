from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tests.metaeval.test_correlation import VECTORS
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.agreement import Averaging, agreement, draw, interval
from twmd_registry.metaeval.correlation import Statistic, correlate


def campaign(
    seed: int = 0, *, groups: int = 2, items: int = 12, systems: int = 5, noise: float = 10.0
) -> tuple[np.ndarray, RatedSegments]:
    """Scores and ratings of systems on items of several language pairs, in a shuffled order."""
    rng = np.random.default_rng(seed)
    rows = [(f"g{g}", f"g{g}:{i}", f"s{s}") for g in range(groups) for i in range(items) for s in range(systems)]
    rows = [rows[k] for k in rng.permutation(len(rows))]
    ratings = np.array([40 + 5 * int(system[1:]) + rng.normal(0, 15) for _, _, system in rows]).round()
    scores = ratings + rng.normal(0, noise, len(rows))
    group, item, system = (list(column) for column in zip(*rows, strict=True))
    return scores, RatedSegments(group, [""] * len(rows), [""] * len(rows), ratings, 0, item, system)


@pytest.mark.parametrize("statistic", VECTORS)
@pytest.mark.parametrize("averaging", Averaging)
def test_the_average_is_the_loop_over_parts(statistic: str, averaging: Averaging) -> None:
    scores, rated = campaign()
    columns = {"none": ["all"] * len(scores), "group": rated.group, "item": rated.item, "system": rated.system}
    column = np.array(columns[averaging])
    expected = {
        name: VECTORS[statistic](scores[column == name], rated.ratings[column == name])
        for name in sorted(set(column.tolist()))
    }
    found = agreement(statistic, scores, rated, averaging=averaging, resamples=50)
    assert [one.name for one in found.groups] == list(expected)
    assert [one.value for one in found.groups] == pytest.approx(list(expected.values()))
    assert [one.n for one in found.groups] == [int((column == name).sum()) for name in expected]
    assert found.value == pytest.approx(np.mean(list(expected.values())))
    assert (found.n, found.undefined) == (len(scores), ())
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


@pytest.mark.parametrize("statistic", ["darr", "acc_eq"])
def test_pairs_are_compared_within_items_of_a_group(statistic: str) -> None:
    scores, rated = campaign()
    names, items = np.array(rated.group), np.array(rated.item)
    found = agreement(statistic, scores, rated, resamples=100)
    expected = [
        correlate(statistic, scores[names == name], rated.ratings[names == name], items[names == name])
        for name in ("g0", "g1")
    ]
    assert [one.value for one in found.groups] == pytest.approx(expected)
    assert all((one.epsilon is not None) == (statistic == "acc_eq") for one in found.groups)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    pooled = agreement(statistic, scores, rated, averaging="none", resamples=0)
    assert pooled.value == pytest.approx(correlate(statistic, scores, rated.ratings, items))


@pytest.mark.parametrize("statistic", VECTORS)
def test_intervals_are_the_percentiles_of_a_loop_over_resamples(statistic: str) -> None:
    scores, rated = campaign()
    names = np.array(rated.group)
    values = []
    for k, name in enumerate(("g0", "g1")):
        own, people = scores[names == name], rated.ratings[names == name]
        weights = draw(len(own), 200, np.random.default_rng([7, k]))
        values.append([VECTORS[statistic](np.repeat(own, drawn), np.repeat(people, drawn)) for drawn in weights.T])
    found = agreement(statistic, scores, rated, resamples=200, seed=7)
    assert (found.low, found.high) == pytest.approx(np.percentile(np.mean(values, axis=0), [2.5, 97.5]))
    for one, own_values in zip(found.groups, values, strict=True):
        assert (one.low, one.high) == pytest.approx(np.percentile(own_values, [2.5, 97.5]))


def test_an_average_over_items_draws_whole_items() -> None:
    scores, rated = campaign(items=30)
    found = agreement("kendall", scores, rated, averaging="item", seed=3)
    values = np.array([one.value for one in found.groups])
    weights = draw(len(values), 1000, np.random.default_rng(3))
    means = [np.repeat(values, drawn).mean() for drawn in weights.T]
    assert (found.low, found.high) == pytest.approx(np.percentile(means, [2.5, 97.5]))
    assert {(one.low, one.high) for one in found.groups} == {(None, None)}


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(11)
    truth, rows, covered = 0.5, 60, 0
    for trial in range(200):
        x = rng.normal(size=rows)
        y = truth * x + np.sqrt(1 - truth**2) * rng.normal(size=rows)
        found = agreement("pearson", x, RatedSegments(["g"] * rows, [], [], y, 0), resamples=300, seed=trial)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= truth <= found.high
    assert 0.88 <= covered / 200 <= 0.99


def test_scipys_bootstrap_has_nearly_the_same_interval() -> None:
    scores, rated = campaign(groups=1, items=40)
    ours = agreement("pearson", scores, rated, resamples=4000)
    theirs = stats.bootstrap(
        (scores, rated.ratings),
        lambda x, y: stats.pearsonr(x, y).statistic,
        paired=True,
        vectorized=False,
        method="percentile",
        n_resamples=4000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_a_seed_is_a_result_and_a_group_is_drawn_alike_beside_any_other_metric() -> None:
    scores, rated = campaign()
    assert agreement("kendall", scores, rated, resamples=50) == agreement("kendall", scores, rated, resamples=50)
    assert (
        agreement("kendall", scores, rated, resamples=50).low
        != agreement("kendall", scores, rated, resamples=50, seed=1).low
    )
    broken = np.where(np.array(rated.group) == "g0", 1.0, scores)
    with pytest.warns(TwmdWarning, match="undefined for 1 of 2"):
        assert (
            agreement("kendall", broken, rated, resamples=50).groups[0]
            == agreement("kendall", scores, rated, resamples=50).groups[1]
        )


def test_many_rows_are_drawn_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, rated = campaign()
    whole = agreement("pearson", scores, rated, resamples=50)
    monkeypatch.setattr("twmd_registry.metaeval.agreement._BLOCK", 7 * 60)
    assert agreement("pearson", scores, rated, resamples=50)[:3] == pytest.approx(whole[:3])


def test_without_resamples_there_is_no_interval() -> None:
    scores, rated = campaign()
    for statistic in Statistic:
        found = agreement(statistic, scores, rated, resamples=0)
        assert {found.low, found.high, *(one.low for one in found.groups), *(one.high for one in found.groups)} == {
            None
        }


def test_a_group_without_a_value_is_named_counted_and_left_out() -> None:
    ratings = np.arange(11.0) ** 2 % 7
    rated = RatedSegments(["a"] * 4 + ["b"] * 5 + ["c"] * 2, [], [], ratings, 0)
    scores = np.array([1, 2, 3, 5, 4, 4, 4, 4, 4, 0, 1], dtype=float)
    with pytest.warns(
        TwmdWarning, match=r"for 2 of 3, .*: b \(5 segments: the scores are constant \(4\)\), c \(2 segments: 3 or more"
    ):
        found = agreement("pearson", scores, rated)
    assert [(one.name, one.n) for one in found.undefined] == [("b", 5), ("c", 2)]
    assert found.value == pytest.approx(correlate("pearson", scores[:4], ratings[:4]))
    assert found.n == 4
    with pytest.raises(InputError, match="pearson is undefined everywhere: a .*, b .*, c "):
        agreement("pearson", np.ones(11), rated)


def test_a_resample_without_a_value_is_left_out() -> None:
    found = agreement("pearson", [1, 2, 3, 4], RatedSegments(["a"] * 4, [], [], np.array([1.0, 3.0, 2.0, 2.5]), 0))
    assert found.low is not None
    assert -1 <= found.low < found.value < 1
    # Most resamples of three rows hold two of them, which always lie on a line.
    assert agreement("pearson", [1, 2, 3], RatedSegments(["a"] * 3, [], [], np.array([1.0, 3.0, 2.0]), 0)).low is None
    assert interval(np.array([math.nan, 2.0, 2.0])) == (2, 2)
    assert interval(np.array([math.nan, 2.0])) == (None, None)
    assert interval(np.array([math.nan])) == (None, None)


def test_long_lists_of_undefined_items_are_cut_in_the_warning_only() -> None:
    scores, rated = campaign(items=20, groups=1)
    scores = np.where(np.array([int(item.split(":")[1]) < 15 for item in rated.item or []]), 0.0, scores)
    with pytest.warns(TwmdWarning, match="for 15 of 20, .* and 5 more"):
        found = agreement("spearman", scores, rated, averaging="item")
    assert len(found.undefined) == 15


def test_what_cannot_be_is_refused() -> None:
    scores, rated = campaign()
    bare = rated._replace(item=None, system=None)
    for averaging in ("item", "system"):
        with pytest.raises(InputError, match=f"averaging={averaging} needs the {averaging} of every segment"):
            agreement("pearson", scores, bare, averaging=averaging)
        with pytest.raises(SpecError, match="darr compares segments of one item already"):
            agreement("darr", scores, rated, averaging=averaging)
    with pytest.raises(InputError, match="acc_eq compares segments of one item, and these data do not name items"):
        agreement("acc_eq", scores, bare)
    with pytest.raises(SpecError, match="there is no averaging 'groups'; did you mean 'group'"):
        agreement("pearson", scores, rated, averaging="groups")
    with pytest.raises(SpecError, match="expected resamples of 0 or more, not -1"):
        agreement("pearson", scores, rated, resamples=-1)
    with pytest.raises(InputError, match=r"scores\[0\] is nan"):
        agreement("pearson", np.full(len(scores), math.nan), rated)
    with pytest.raises(InputError, match="expected scores of shape"):
        agreement("pearson", scores[1:], rated)
