"""The averages of the metrics shared task, against their parts computed one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.metaeval.test_agreement import make_campaign
from twmd_registry.cli import main
from twmd_registry.errors import InputError
from twmd_registry.judgments.official import OfficialScores
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import content_of
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.metaeval.study import Study
from twmd_registry.metaeval.tasks import TASKS, TaskResult, run_task
from twmd_registry.registry.names import Statistic
from twmd_registry.registry.options import RunOptions

NAMES = {"g0": "en-de", "g1": "zh-en"}


def make_task() -> tuple[list[OfficialScores], RatedSegments]:
    """Return the scores of a better and a worse metric on two language pairs of WMT23."""
    scores, rated = make_campaign(noise=5.0)
    worse = scores + np.random.default_rng(3).normal(0, 60, len(scores))
    rated = rated._replace(group=[NAMES[name] for name in rated.group])
    both = {"worse": worse, "better": scores}
    return [OfficialScores(name, "0" * 12, tuple(own), frozenset()) for name, own in both.items()], rated


def run(task: str, metrics: list[OfficialScores], rated: RatedSegments) -> TaskResult:
    study = Study("made", content_of(rated), tuple(metrics), (Statistic.PEARSON,))
    return run_task(task, study, rated, RunOptions())


def test_average_of_wmt23_is_of_accuracy_correlations_and_acc_eq() -> None:
    metrics, rated = make_task()
    result = run("wmt23", metrics, rated)
    assert [metric.label for metric in result.scored] == ["better*", "worse*"]
    group, system, item = (np.array(labels) for labels in (rated.group, rated.system, rated.item))
    scores, expected, alike = np.array(metrics[1].scores), [], []
    for pair in ("en-de", "zh-en"):
        own = group == pair
        means = np.array([[v[own & (system == s)].mean() for s in np.unique(system)] for v in (scores, rated.ratings)])
        signs = [np.sign(np.subtract.outer(side, side)[np.triu_indices(5, 1)]) for side in means]
        alike += (signs[0] == signs[1]).tolist()
        correlations = stats.pearsonr(*means).statistic, stats.pearsonr(scores[own], rated.ratings[own]).statistic
        expected += [(1 + r) / 2 for r in correlations]  # from 0 to 1, as accuracies
        expected.append(correlate("acc_eq", scores[own], rated.ratings[own], item[own]))
    expected += [np.mean(alike)] * 2  # as heavy as a part of each of the two pairs
    assert result.averages[0] == pytest.approx(np.mean(expected), abs=1e-12)
    assert result.notes == ("wmt23: no ratings of he-en; the average is over en-de, zh-en.",)
    assert result.tables["task"].header[2] == "accuracy of systems (x 2)"


def test_average_of_wmt24_is_of_spa_and_acc_eq() -> None:
    metrics, rated = make_task()
    parts = run("wmt24", metrics, rated).parts[0]
    assert list(parts) == ["en-de system spa", "en-de segment acc_eq"]
    own = [i for i, name in enumerate(rated.group) if name == "en-de"]
    items, systems = ([labels[i] for i in own] for labels in (rated.item or [], rated.system or []))
    spa = correlate("spa", np.array(metrics[1].scores)[own], rated.ratings[own], items, systems=systems)
    assert parts["en-de system spa"][0] == pytest.approx(spa, abs=1e-12)


def test_data_of_other_pairs_are_refused() -> None:
    metrics, rated = make_task()
    with pytest.raises(InputError, match="wmt24 ranks metrics on en-de, en-es, ja-zh; these data have none of them"):
        run("wmt24", metrics, rated._replace(group=["cs-en"] * len(rated.group)))
    with pytest.raises(InputError, match="over language pairs, and these data are divided further, as 'en-de news'"):
        run("wmt23", metrics, rated._replace(group=["en-de news"] * len(rated.group)))
    assert set(TASKS) == {"wmt22", "wmt23", "wmt24"}


def test_task_and_a_statistic_are_not_asked_for_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.csv").write_text("prediction,reference,rating\na,b,1\n", encoding="utf-8")
    for other in (["--correlation", "pearson"], ["--level", "system"], ["--trials", "9"]):
        assert main(["correlate", f"table:{tmp_path / 'own.csv'}", "-m", "chrf", "--task", "wmt23", *other]) == 2
        assert "--task names its own statistics: leave out" in capsys.readouterr().err
