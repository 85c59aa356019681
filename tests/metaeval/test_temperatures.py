"""Appendix B: weighted means against loops, choices and the sentence on made-up numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests import tiny
from tests.metaeval.rated_files import write_wmt
from twmd_registry.engine.scorer import Scorer
from twmd_registry.metaeval.reproduce.protocols import read_years
from twmd_registry.metaeval.reproduce.temperatures import PAPER, TEMPERATURES, ChosenTemperature, choose_temperatures, sentence_of, table_of
from twmd_registry.metaeval.sweeps import TEMPERED
from twmd_registry.registry.names import Output
from twmd_registry.registry.options import RunOptions


def test_a_year_counts_by_its_size_and_its_language_pairs_alike(tmp_path: Path) -> None:
    write_wmt(tmp_path, 15, ("cs-en", "de-en"), 35)
    write_wmt(tmp_path, 16, ("ro-en",), 6)
    model = str(tiny.save_encoder("bert", tmp_path / "bert"))
    data = read_years((15, 16), tmp_path)
    found = choose_temperatures(data, model, 2, RunOptions())
    assert [(one.output, one.row) for one in found] == [(output, row) for output in ("precision", "recall", "f1") for row in TEMPERED]
    for one, place in ((found[1], 9), (found[6], 3), (found[11], 0)):
        spec, total = one.tried[place], 0.0
        assert (spec.temperature, spec.output) == (TEMPERATURES[place], one.output)
        assert (spec.metric.upper(), spec.centering) == (one.row.removesuffix("-b"), "batch" if one.row.endswith("-b") else "none")
        for rated in data:
            of_pairs = []
            for pair in sorted(set(rated.group)):
                rows = [i for i, group in enumerate(rated.group) if group == pair]
                scores = Scorer(spec).score([rated.predictions[i] for i in rows], [rated.references[i] for i in rows]).scores
                of_pairs.append(stats.pearsonr(scores, rated.ratings[rows]).statistic)
            total += len(rated.ratings) * float(np.mean(of_pairs))
        assert one.pearson[place] == pytest.approx(total / 76, abs=1e-5)


def made_up(best: dict[tuple[str, str], float]) -> list[ChosenTemperature]:
    """0.5 everywhere, 0.6 at the best, 0.55 at the paper's temperature where that is another."""
    found = []
    for output, table in PAPER.items():
        for row in TEMPERED:
            own = best.get((row, output), table.temperatures[row])
            pearson = [0.6 if t == own else 0.55 if t == table.temperatures[row] else 0.5 for t in TEMPERATURES]
            found.append(ChosenTemperature(row, output, (), np.array(pearson)))
    return found


def test_the_papers_temperatures_stand_beside_the_best_here() -> None:
    assert {(one.output, one.row): one.paper for one in made_up({})} == {
        **{(side, row): t for side in ("precision", "recall") for row, t in zip(TEMPERED, (0.02, 0.1, 0.02, 0.15), strict=True)},
        **{("f1", row): t for row, t in zip(TEMPERED, (0.01, 0.08, 0.01, 0.06), strict=True)},
    }
    found = made_up({("TWMD-b", "f1"): 0.15})
    table = table_of(found, "made-up data")
    assert "made-up data" in table.name
    assert table.header == ("metric", "side", *(f"T={t:g}" for t in TEMPERATURES), "best here", "paper")
    assert table.rows[9] == ("TWMD-b", "f1", *["50.00"] * 7, "55.00", "50.00", "60.00", "0.15", "0.08")
    assert sentence_of(found) == (
        "The paper's temperature is the best here in 11 of 12 rows; it costs at most 5.00 points of Pearson (TWMD-b, f1: T=0.08 instead of 0.15). "
        "In 3 rows the best is at an end of what is tried, and a better one may lie beyond it."
    )
    assert "in 12 of 12 rows; it costs at most 0.00 points" in sentence_of(made_up({}))
    assert "In 4 rows the best is at an end" in sentence_of(made_up({("TWMD-b", "f1"): 0.15, ("TWMD", "f1"): 0.001}))


def test_of_equal_temperatures_the_lowest_is_chosen() -> None:
    pearson = np.full(len(TEMPERATURES), 0.5)
    pearson[[4, 7]] = 0.7
    assert ChosenTemperature("TWMD", Output.F1, (), pearson).temperature == TEMPERATURES[4]
