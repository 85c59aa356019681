"""Published scores of other metrics: files, agreement and errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.conftest import Run, shared
from tests.judgments.test_mt_metrics_eval import wmt
from tests.judgments.test_readers import written
from tests.metaeval.pairwise import correlate_pairs
from twmd_registry.errors import FileError, SpecError, TwmdWarning
from twmd_registry.judgments.official import published_systems, rate_external, read_official
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import read_rated
from twmd_registry.metaeval.agreement import system_agreement
from twmd_registry.metaeval.correlation import correlate

pytestmark = pytest.mark.filterwarnings("ignore")
WMT23 = {
    "BERTscore": (0.528030303, 58),
    "BLEU": (0.519598155, 59),
    "BLEURT-20": (0.572134387, 64),
    "COMET": (0.574011858, 64),
    "CometKiwi": (0.569169960, 65),
    "GEMBA-MQM": (0.572068511, 66),
    "MetricX-23": (0.602602108, 60),
    "XCOMET-Ensemble": (0.603985507, 62),
    "YiSi-1": (0.542226614, 60),
    "chrF": (0.519235837, 54),
    "prismRef": (0.517951252, 59),
}
"""Of WMT23 en-de by reference A, ``acc_eq`` by the algorithm of mt-metrics-eval's ``tau_optimization`` with ``acc_23``,
and how many of 66 pairs of systems metric and people order the same way by their published scores of systems."""


@pytest.fixture
def campaign(tmp_path: Path) -> str:
    """Return the name of rated data with two systems and four metrics' published scores."""
    folder = wmt(
        tmp_path, "A\t-1\nB\tNone\nA\t0\nB\t-5\nA\t-2\nB\t-3\n", {"A": "rain\nfog\nsun\n", "B": "snow\nfrost\nrain\n"}
    )
    for name in ("refA", "refB"):
        written(folder, "rain\nfrog\nsunny\n", f"references/zh-en.{name}.txt")
    for name, text in {
        "a-1-refA.seg": "A\t1\nA\t2\nA\t3\nB\t4\nB\t5\nB\t6\n",
        "a-1-refA.sys": "A\t0.25\nB\t0.5\nrefB\tNone\n",
        "b-src.seg": "B\t1e-3\nB\t2\nB\t3\nA\t4\nA\t5\nA\t6\n",
        "c-refA.seg": "A\t1\nA\t2\nA\t3\nB\tNone\nB\tNone\nB\t6\n",
        "d-refB.seg": "A\t1\nA\t2\nA\t4\nB\t4\nB\t5\nB\t6\n",
    }.items():
        written(folder, text, f"metric-scores/zh-en/{name}.score")
    return f"mte:{folder}"


def test_scores_match_rated_segments_in_any_order(campaign: str) -> None:
    rated = read_rated(campaign)
    assert list(zip(rated.system or [], rated.item or [], strict=True))[3:] == [("B", "zh-en:2"), ("B", "zh-en:3")]
    with pytest.warns(TwmdWarning) as caught:
        first, second = read_official(campaign, rated)
    other_reference, lacking = (str(warning.message) for warning in caught)
    assert other_reference.endswith("with a .seg.score each; skipped: zh-en/d-refB.seg.score.")
    assert "metrics left out, with the number of rated segments without a score: c (1 of zh-en); " in lacking
    assert (first.label, first.scores) == ("a-1*", (1, 2, 3, 5, 6))
    assert first.systems == {("zh-en", "A", 0.25), ("zh-en", "B", 0.5)}
    assert (second.label, second.scores, second.systems) == ("b*", (4, 5, 6, 2, 3), frozenset())
    with pytest.warns(TwmdWarning, match=r"skipped: zh-en/a-1-refA\.seg\.score, zh-en/a-1-refA\.sys\.score, "):
        other = read_official(f"{campaign},reference=refB", rated)
    assert [metric.label for metric in other] == ["b*", "d*"]
    with pytest.warns(TwmdWarning, match="skipped"):
        assert [metric.label for metric in read_official(f"{campaign},reference=refA.refB", rated)] == ["b*"]
    assert len({metric.signature for metric in (first, second, *other)}) == 3


def test_published_scores_of_systems_are_read_and_missing_ones_are_named(campaign: str, tmp_path: Path) -> None:
    rated = read_rated(campaign)
    before, same = read_official(campaign, rated)
    written(tmp_path, "A\t0.25\n", "metric-scores/zh-en/a-1-refA.sys.score")
    written(tmp_path, "news\tA\t0.5\n", "metric-scores/zh-en/a-1-refA.domain.score")
    first, second = read_official(campaign, rated)
    assert (first.signature != before.signature, second) == (
        True,
        same,
    )  # a study's name depends on the scores of systems
    with pytest.warns(TwmdWarning) as caught:
        published = published_systems([first, "chrf", second, second._replace(label="c*")], rated)
    assert published == [{("zh-en", "A"): 0.25, ("zh-en news", "A"): 0.5}, {}, {}, {}]
    assert [str(warning.message) for warning in caught] == [
        f"{names}: systems without a published score ({systems}); the mean over segments is used."
        for names, systems in (("a-1*", "B of zh-en"), ("b*, c*", "A of zh-en, B of zh-en"))
    ]
    divided = rated._replace(domain=["news"] * len(rated.group))
    with pytest.warns(
        TwmdWarning, match=r"systems without a published score \(B of zh-en, B of zh-en news\); the mean"
    ):
        published_systems([first], divided)


def test_ignored_files_and_missing_metrics_are_named(campaign: str, tmp_path: Path) -> None:
    for name in ("e.seg", "f-refC.seg", "g-refA.sys", "a-1-refA.seq"):
        written(tmp_path, "A\t1\n", f"metric-scores/zh-en/{name}.score")
    names = ("a-1-refA.seq", "d-refB.seg", "e.seg", "f-refC.seg", "g-refA.sys")
    passed_over = ", ".join(f"zh-en/{name}.score" for name in names)
    with pytest.warns(TwmdWarning, match=rf"with a \.seg\.score each; skipped: {passed_over}\.$"):
        assert [metric.label for metric in read_official(campaign, read_rated(campaign))] == ["a-1*", "b*"]
    wmt(tmp_path, "A\t-1\nA\t-2\n", {"A": "one\ntwo\n"}, "en-de")
    written(tmp_path, "A\t1\nA\t2\n", "metric-scores/en-de/a-1-refA.seg.score")
    words = r"without a score: b \(2 of en-de\), c \(2 of en-de, 1 of zh-en\)"
    with pytest.warns(TwmdWarning, match=words):
        assert [metric.label for metric in read_official(campaign, read_rated(campaign))] == ["a-1*"]


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("a-1-refA.seg", "A\t1\nA\t2\nB\t3\nB\t4\nB\t5\nB\t6\n", " has 2 scores of A; expected 3"),
        ("a-1-refA.sys", "A\t0.25\nB\t0.5\nA\t0.5\n", " has 2 scores of A; expected 1"),
        ("a-1-refA.domain", "A\t0.25\n", r", row 1: expected DOMAIN"),
    ],
)
def test_damaged_or_missing_files_are_refused(file: str, text: str, words: str, campaign: str, tmp_path: Path) -> None:
    rated, damaged = read_rated(campaign), written(tmp_path, text, f"metric-scores/zh-en/{file}.score")
    with pytest.raises(FileError, match=rf"{file}\.score{words}"):
        read_official(campaign, rated)
    for path in damaged.parent.iterdir():
        path.unlink()
    with pytest.raises(FileError, match=r"metric-scores contains no NAME-refA\.seg\.score"):
        read_official(campaign, rated)
    with pytest.raises(SpecError, match=r"wmt:x\.jsonl: .*mte:FOLDER"):
        read_official("wmt:x.jsonl", rated)


def test_published_scores_and_metrics_share_one_table(campaign: str, run: Run) -> None:
    study = json.loads(run(f"correlate {campaign} -m chrf --official --format json")[1])
    assert [metric["label"] for metric in study["metrics"]] == ["chrf", "a-1*", "b*"]
    values = [metric["agreement"]["pearson"]["value"] for metric in study["metrics"]]
    ratings = np.array([-1.0, 0, -2, -5, -3])
    assert values[1:] == pytest.approx(
        [correlate("pearson", metric_scores, ratings) for metric_scores in ([1, 2, 3, 5, 6], [4, 5, 6, 2, 3])]
    )
    rows = [line.split() for line in run(f"correlate {campaign} -m chrf --official")[1].splitlines()]
    shown = [float(row[1]) for row in rows if row and row[0] in {"chrf", "a-1*", "b*"}]
    assert shown == pytest.approx(sorted(values, reverse=True), abs=5e-4)
    assert shown != pytest.approx(values, abs=5e-4)  # chrf, which was named first, is not the best
    assert f"official:a-1@{study['metrics'][1]['signature'].rpartition('@')[2]}" in study["study"]


def test_wmt23_statistics_equal_the_shared_tasks() -> None:
    data = f"mte:{shared('data/mte/wmt23')},pair=en-de"
    rated = read_rated(data)
    official = {metric.label.removesuffix("*"): metric for metric in read_official(data, rated)}
    assert official.keys() == WMT23.keys()
    for name, (acc_eq, alike) in WMT23.items():
        scores, published = official[name].scores, published_systems([official[name]], rated)[0]
        assert correlate_pairs("acc_eq", scores, rated.ratings, rated.item) == pytest.approx(acc_eq, abs=1e-6)
        correlated, accuracy = system_agreement("pearson", scores, rated, resamples=0, systems=published)
        assert accuracy.value == pytest.approx(alike / 66, abs=1e-12)
        assert accuracy.n == 66
        means, _ = system_agreement("pearson", scores, rated, resamples=0)
        assert name != "BLEU" or correlated.value != means.value  # corpus BLEU is not a mean
        lines = shared("data/mte/wmt23/human-scores/en-de.mqm.sys.score").read_text().splitlines()
        human, systems = (line.split("\t") for line in lines), np.array(rated.system)
        checked = {name: float(score) for name, score in human if name in set(systems.tolist())}
        expected = stats.pearsonr([published["en-de", name] for name in checked], [*checked.values()]).statistic
        assert correlated.value == pytest.approx(expected, abs=1e-12)
    assert rated.system_ratings == {("en-de", name): score for name, score in checked.items()}
    assert {name: rated.ratings[systems == name].mean() for name in checked} == pytest.approx(checked, abs=1e-9)


@pytest.mark.parametrize("pairs", [("de-en", "de-en"), ("de-en", "zh-en")])
def test_scores_are_placed_by_number_only_for_a_single_pair(pairs: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "x.seg.score"
    path.write_text("A\t0.1\nA\t0.2\nA\t0.3\n", encoding="utf-8")
    texts, items = ["a", "b"], [f"{pairs[0]}:1", f"{pairs[1]}:3"]
    rated = RatedSegments([*pairs], texts, texts, np.arange(2.0), 0, items, ["A", "A"])
    if len(set(pairs)) == 1:
        assert rate_external("X", [path], rated).scores == (0.1, 0.3)
    else:
        with pytest.raises(FileError, match="3 scores of A, but 2"):
            rate_external("X", [path], rated)
