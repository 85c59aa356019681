"""What the paper reads from its figures, judged on made-up curves: where it holds, where it does not, where it is undefined."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np
import pytest

from twmd_registry.errors import InputError
from twmd_registry.metaeval.diagnose import Diagnosis, LayerRow, MeanCosine, Property, Verdict
from twmd_registry.metaeval.reproduce.readings import (
    COMPARED,
    centering_helps,
    compare_centerings,
    cool_plans_converge_slower,
    high_baseline,
    one_sweep_is_best,
    robust_against_temperature,
)
from twmd_registry.metaeval.reproduce.rows import TABLES
from twmd_registry.metaeval.sweeps import SweepLine, SweepPoint, iteration_settings, layer_settings, temperature_settings
from twmd_registry.metaeval.word_pairs import Similarity
from twmd_registry.registry.names import Centering

WMT = TABLES["twmd-table2"]
T = (0.005, 0.01, 0.1, 0.15)


def by_temperature(curves: Mapping[str, tuple[float, ...]], temperatures: tuple[float, ...] = T) -> list[SweepPoint]:
    """Curves of twmd, twmd-b, trwmd and trwmd-b, in this order, each as long as the temperatures."""
    specs = temperature_settings("a/b", 1, WMT, temperatures)
    return [SweepPoint(spec, r) for spec, r in zip(specs, itertools.chain(*curves.values()), strict=True)]


ROBUST = {"twmd": (0.1, 0.5, 0.6, 0.4), "twmd-b": (0.9, 0.5, 0.55, 0.5), "trwmd": (0.0, 0.1, 0.3, 0.2), "trwmd-b": (-0.5, 0.7, 0.8, 0.6001)}


def test_robust_is_a_smaller_range_within_the_temperatures() -> None:
    found = robust_against_temperature(by_temperature(ROBUST))
    assert found.holds is True
    assert "this holds here" in found.sentence
    assert "twmd's r varies by 0.0500 with it and by 0.2000 without; trwmd's r varies by 0.1999 with it and by 0.2000 without" in found.sentence
    for curve, wider in (("twmd-b", (0.5, 0.2, 0.55, 0.5)), ("trwmd-b", (0.7, 0.7, 0.8, 0.5))):
        found = robust_against_temperature(by_temperature(ROBUST | {curve: wider}))
        assert found.holds is False
        assert "this does not hold here" in found.sentence


def test_robustness_needs_temperatures_and_both_centerings() -> None:
    with pytest.raises(InputError, match="twmd: expected at least two temperatures from 0.01 to 0.15, got 1"):
        robust_against_temperature(by_temperature(dict.fromkeys(ROBUST, (0.1, 0.2)), (0.005, 0.01)))
    with pytest.raises(InputError, match="trwmd: expected it without centering and with the batch's at the same values of temperature"):
        robust_against_temperature(by_temperature(ROBUST)[:-1])
    with pytest.raises(InputError, match="nothing was measured"):
        robust_against_temperature([])


def by_sweeps(*curves: tuple[float, float, float]) -> list[SweepPoint]:
    specs = iteration_settings("a/b", 1, WMT, (0.01, 0.1), (1, 2, 10))
    return [SweepPoint(spec, r) for spec, r in zip(specs, itertools.chain(*curves), strict=True)]


@pytest.mark.parametrize(
    ("cold", "warm", "holds", "evidence"),
    [
        ((0.5, 0.4, 0.51), (0.7, 0.6, 0.5), True, "T=0.01: r = 0.5000, 10 sweeps reach 0.5100; T=0.1: r = 0.7000, the best"),
        ((0.5, 0.4, 0.3), (0.7, 0.7, 0.5), True, "T=0.01: r = 0.5000, the best; T=0.1: r = 0.7000, the best"),
        ((0.5, 0.4, 0.3), (0.7, 0.71, 0.5), False, "T=0.01: r = 0.5000, the best; T=0.1: r = 0.7000, 2 sweeps reach 0.7100"),
    ],
)
def test_one_sweep_may_lose_at_the_papers_exception_only(
    cold: tuple[float, float, float], warm: tuple[float, float, float], holds: bool, evidence: str
) -> None:
    found = one_sweep_is_best(by_sweeps(cold, warm))
    assert found.holds is holds
    assert f"({evidence})." in found.sentence


def test_without_one_sweep_nothing_is_judged() -> None:
    with pytest.raises(InputError, match=r"T=0\.01: expected one sweep and other numbers of sweeps, got \[2, 10\]"):
        one_sweep_is_best(by_sweeps((0.1, 0.2, 0.3), (0.1, 0.2, 0.3))[1:])
    with pytest.raises(InputError, match=r"got \[1\]"):
        one_sweep_is_best(by_sweeps((0.1, 0.2, 0.3), (0.1, 0.2, 0.3))[:1])


@pytest.mark.parametrize(
    ("errors", "holds"),
    [
        (((0.9, 0.5, 0.3), (0.5, 0.1, 0.01), (0.1, 0.01, 1e-17)), True),
        (((0.9, 0.5, 0.3), (0.1, 0.01, 1e-17), (0.5, 0.1, 0.01)), False),
        (((0.9, 0.01, 1e-16), (0.1, 0.01, 2e-16)), False),
        (((0.9, 0.5, 0.3), (0.5, 0.1, 0.02)), None),
    ],
)
def test_cool_plans_need_more_sweeps(errors: tuple[tuple[float, ...], ...], holds: bool | None) -> None:
    found = cool_plans_converge_slower([SweepLine(f"T{i}", np.array([1.0, 5.0, 20.0]), np.array(own)) for i, own in enumerate(errors)])
    assert found.holds is holds
    first = "T0 gets there by sweep 5" if errors[0][1] <= 0.01 else "T0 is at 0.300 after 20"
    assert f"({first}; T1 " in found.sentence


def test_centering_helps_everywhere_or_it_is_said_where_not() -> None:
    specs = layer_settings("a/b", [1, 2], WMT)
    measured = [SweepPoint(spec, 0.5 + 0.1 * (spec.centering_kind is Centering.BATCH) + 0.01 * int(str(spec.layer))) for spec in specs]
    found = centering_helps(measured)
    assert found.holds is True
    assert "it does so in 12 of 12 places)" in found.sentence
    below = [one._replace(pearson=0.52) if (one.spec.metric, one.spec.layer, one.spec.centering) == ("twmd", 2, "batch") else one for one in measured]
    assert centering_helps(below).holds is False
    assert "in 11 of 12 places; not so twmd in layer 2 (0.5200 against 0.5200))" in centering_helps(below).sentence
    nowhere = centering_helps([one._replace(pearson=0.5) for one in measured]).sentence
    assert nowhere.endswith("and 9 more).")
    assert nowhere.count("against") == 3
    with pytest.raises(InputError, match="trwmd: expected it without centering and with the batch's at the same values of layer"):
        centering_helps(measured[:-1])


def diagnosis(random: tuple[float, ...], verdicts: dict[tuple[Centering, Property], bool | None]) -> Diagnosis:
    rows = tuple(LayerRow(Centering.NONE, k, {Similarity.RANDOM: MeanCosine(mean, 0.0, 9, 0)}) for k, mean in enumerate(random))
    return Diagnosis("a/b", 9, 99, 0, 0, rows, tuple(Verdict(*place, holds, "") for place, holds in verdicts.items()))


@pytest.mark.parametrize(
    ("means", "holds"),
    [((0.1, 0.5, 0.6), True), ((0.6, 0.5, 0.1), False), ((0.3, 0.9, 0.35), False), ((-0.02, 0.01, 0.04), False), ((0.1, math.nan, 0.6), None)],
)
def test_a_high_baseline_rises(means: tuple[float, ...], holds: bool | None) -> None:
    found = high_baseline(diagnosis(means, {}))
    assert found.holds is holds
    assert ("undefined" in found.sentence) is (holds is None)
    with pytest.raises(InputError, match="rows without centering"):
        high_baseline(diagnosis((), {}))


def test_centerings_are_compared_with_the_papers_verdicts() -> None:
    papers: dict[tuple[Centering, Property], bool | None] = dict(COMPARED)
    assert compare_centerings(diagnosis((), papers)).holds is True
    other = compare_centerings(diagnosis((), papers | {(Centering.CORPUS, Property.ZERO): False}))
    assert other.holds is False
    assert "6 of the 7 verdicts are the paper's; corpus centering here does not have zero expected similarity)" in other.sentence
    unknown = papers | {(Centering.SENTENCE, Property.INCREASING): None}
    assert compare_centerings(diagnosis((), unknown)).holds is None
    assert "cannot be decided here (6 of" in compare_centerings(diagnosis((), unknown)).sentence
    assert compare_centerings(diagnosis((), unknown | {(Centering.DIMENSION, Property.ZERO): True})).holds is False
    beside = papers | {(Centering.BATCH, Property.ZERO): False}
    assert compare_centerings(diagnosis((), beside)).holds is True
    with pytest.raises(InputError, match="under corpus, dimension, sentence centering as well"):
        compare_centerings(diagnosis((), {(Centering.NONE, Property.ZERO): False}))
