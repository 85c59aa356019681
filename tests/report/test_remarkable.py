"""Which segments are worth a look, against double loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.report.reports import column, comparison
from twmd_registry.record.content import SystemComparison
from twmd_registry.report.highlights import disagreements, remarks, spreads, standings


def beaten(values: list[float], less: bool) -> list[float]:
    """The share of the others that each number beats, a tie counting half."""
    found = []
    for i, own in enumerate(values):
        wins = [
            1.0 if (own < other if less else own > other) else 0.5 if own == other else 0.0
            for j, other in enumerate(values)
            if j != i
        ]
        found.append(sum(wins) / len(wins))
    return found


@pytest.mark.parametrize("errors", [False, True])
def test_a_standing_is_the_share_of_other_scores_that_are_beaten(errors: bool) -> None:
    scores = np.random.default_rng(3).integers(0, 6, size=(3, 7)).astype(float)
    expected = np.array(beaten(scores.ravel().tolist(), errors)).reshape(scores.shape)
    np.testing.assert_allclose(standings(column("any", scores, errors=errors)), expected, atol=1e-12)


def test_spread_and_disagreement_are_the_widest_of_all_pairs() -> None:
    table = comparison(["a", "b", "c"], 9)
    every = [standings(one) for one in table.columns]
    for segment in range(9):
        own = [cell.segments[segment] for cell in table.columns[0].cells]
        assert spreads(table.columns[0])[segment] == max(x - y for x in own for y in own)
        for system in range(3):
            places = [one[system, segment] for one in every]
            assert disagreements(table.columns)[system, segment] == max(x - y for x in places for y in places)


def test_what_is_undefined_is_left_out_and_never_chosen() -> None:
    first, second = (
        np.array([[0.1, np.nan, 0.5, 0.9], [0.2, 0.3, 0.4, 0.8]]),
        np.array([[1.0, 2.0, 3.0, 4.0], [4.0, np.nan, 2.0, 1.0]]),
    )
    columns = column("first", first), column("second", second)
    assert math.isnan(spreads(columns[0])[1])
    assert np.isnan(standings(columns[0])).tolist() == np.isnan(first).tolist()
    assert np.isnan(disagreements(columns)).tolist() == [[False, True, False, False], [False, True, False, False]]
    assert 1 not in [one.segment for one in remarks(SystemComparison(("a", "b"), columns), 20)]
    assert np.isnan(standings(column("one", np.array([[0.5]])))).all()


def test_half_are_where_systems_differ_and_half_where_metrics_disagree() -> None:
    table = comparison(["a.txt", "b.txt"], 50)
    found = remarks(table, 8)
    differing, rest = found[:4], found[4:]
    spread = spreads(table.columns[0])
    assert [one.segment for one in differing] == np.argsort(-spread)[:4].tolist()
    first = differing[0]
    best, worst = (table.columns[0].cells[i].segments[first.segment] for i in first.systems)
    assert best > worst
    ends = [f"{table.columns[0].cells[i].segments[first.segment]:.4f} to {table.systems[i]}" for i in first.systems]
    assert first.reason == f"systems differ: twmd gives {ends[0]} and {ends[1]}"
    apart = disagreements(table.columns)
    taken = {one.segment for one in differing}
    order = [(-apart[i, s], i, s) for i in range(2) for s in range(50) if s not in taken]
    expected: dict[int, int] = {}
    for _, system, segment in sorted(order):
        expected.setdefault(segment, system)
    assert [(one.segment, one.systems) for one in rest] == [
        (segment, (system,)) for segment, system in list(expected.items())[:4]
    ]
    assert len({one.segment for one in found}) == 8
    segment, (system,), reason = rest[0]
    places = sorted((standings(one)[system, segment], one.name) for one in table.columns)
    high, low = (f"{name} ranks it above {share:.0%}" for share, name in (places[-1], places[0]))
    assert reason == f"metrics disagree on {table.systems[system]}: {high}, and {low}, of all other scores"


def test_one_system_has_only_disagreements_and_where_all_agree_there_is_nothing() -> None:
    assert {len(one.systems) for one in remarks(comparison(["alone"], 30), 6)} == {1}
    scores = np.array([[0.1, 0.2, 0.3]])
    assert remarks(SystemComparison(("alone",), (column("x", scores), column("y", 2 * scores))), 6) == ()
