"""The report's page without a browser: its content, that it is one file, and that its texts are data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import twmd_registry
from tests.conftest import Run, fill_disk
from tests.report.reports import Page, column, comparison, nasty_report, page_of, report
from twmd_registry.cli import main
from twmd_registry.comparison.cells import Resampling
from twmd_registry.comparison.systems import compare_systems
from twmd_registry.comparison.verdict import SystemComparison, verdict
from twmd_registry.record.content import parse_record
from twmd_registry.report import html_report
from twmd_registry.report.html_report import correlations, legible, report_page

REFERENCES = ["a cat was sitting on the mat", "it is raining", "the shop opens at nine", "she sold her old red bicycle"]
GOOD = ["the cat sat on the mat", "it rains", "the shop opens at nine", "she sold the old bicycle"]
POOR = ["cat mat", "it is sunny", "nine shops", "he bought a car"]
METRICS = ("twmd", "moverscore", "BLEU")
ARGUMENTS = "ref.txt -i good.txt poor.txt -m twmd moverscore bleu --seed 5"


def write_texts(folder: Path) -> None:
    for name, lines in (("ref", REFERENCES), ("good", GOOD), ("poor", POOR)):
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a report of four segments that the command line has written."""
    path = tmp_path_factory.mktemp("report")
    write_texts(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        assert main(["report", *ARGUMENTS.split(), "-o", "report.html"]) == 0
    return (path / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def files(folder: Path) -> Path:
    write_texts(folder)
    return folder


def test_report_has_the_numbers_of_score(files: Path, source: str, run: Run) -> None:
    rows = json.loads(run(f"score {ARGUMENTS} --paired-bs --format json -sl")[1])
    page = Page(source)
    assert page.data["systems"] == ["good.txt", "poor.txt"]
    assert tuple(one["name"] for one in page.data["metrics"]) == METRICS
    for row in rows:
        k, i = METRICS.index(row["metric"]), page.data["systems"].index(row["system"])
        digits = 2 if row["metric"] == "BLEU" else 4
        assert page.data["scores"][k][i] == [float(f"{score:.{digits}f}") for score in row["scores"]]
        mark = "*" if row.get("p_value", 1) < 0.05 else ""
        p_value = f"\np = {row['p_value']:.4f}" if "p_value" in row else ""
        interval = f"{row['mean']:.{digits}f} ± {row['ci']:.{digits}f}"
        assert f"\n{row['score']:.{digits}f}{mark}\n{interval}{p_value}\n" in page.text
        assert row["signature"] in page.text


def test_record_in_report_can_be_verified(source: str) -> None:
    record = parse_record(Page(source).scripts["record-text"])
    assert not record.edited
    assert [system.name for system in record.systems] == ["good.txt", "poor.txt"]
    assert [result.head for result in record.systems[0].results] == list(METRICS)
    assert [one.name for one in record.inputs] == ["ref.txt", "good.txt", "poor.txt"]
    assert record.resampling == Resampling("bs", 1000, 0, 5)
    assert twmd_registry.verify_record(record, [(GOOD, REFERENCES), (POOR, REFERENCES)]).agrees


def test_heat_maps_show_the_scored_segments(source: str) -> None:
    assert sorted(Page(source).data["pictured"]) == [0, 1, 2, 3]
    assert source.count("<details><summary><strong>Segment") == 4
    assert "poor.txt, twmd, F1: 0." in source
    assert re.search(r'title="sunny → raining: 0\.\d+, cosine 0\.\d{4}"', source)


def test_page_loads_nothing_and_allows_one_script_by_its_hash() -> None:
    page = Page(report_page(**nasty_report()))
    digest = base64.b64encode(hashlib.sha256(page.scripts["script"].encode()).digest()).decode()
    assert page.policy == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; base-uri "
        "'none'; form-action 'none'"
    )
    assert sorted(page.scripts) == ["data", "record-text", "script"]
    assert all(address.startswith("#") for address in page.addresses)
    assert not {"img", "link", "iframe", "object", "embed"} & set(page.tags)
    assert not re.search(r"innerHTML|insertAdjacent|document\.write|eval\(|fetch\(|XMLHttp", page.scripts["script"])


def test_every_text_is_data_and_ends_no_script() -> None:
    content = nasty_report()
    source = report_page(**content)
    source.encode("utf-8")
    page = Page(source)
    for name, given in (("references", content["references"]), ("predictions", content["predictions"])):
        whole = [["".join(parts) for parts in texts] for texts in page.data[name]]
        assert whole == [[legible(text) for text in texts] for texts in given]
    assert page.data["systems"] == ["good <b>.txt", r"</script>poor\u202e\udcff.txt"]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u2028\u202a-\u202e\u2066-\u2069\ud800-\udfff]", source)
    assert "<" not in page.scripts["data"] + page.scripts["record-text"]
    assert parse_record(page.scripts["record-text"]) == content["record"]
    assert page.tags.count("script") == 3
    assert not {"b", "i"} & set(page.tags)


def test_page_of_a_thousand_segments_is_below_a_third_of_five_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_report, "PAGE_BYTES", html_report.PAGE_BYTES // 3)
    monkeypatch.setattr(html_report, "PICTURES_BYTES", html_report.PICTURES_BYTES // 3)
    words = "the quick brown fox and a somewhat slower dog went over to the old harbour bridge in the rain".split()
    random = np.random.default_rng(0)
    texts = [[" ".join(random.permutation(words)) for _ in range(1000)] for _ in range(3)]
    source = report_page(**report(["a.txt", "b.txt"], [[text] for text in texts[0]], texts[1:]))
    assert len(Page(source).data["predictions"][1]) == 1000
    assert len(source.encode()) < 5_000_000 / 3


def test_undefined_number_is_shown_as_undefined() -> None:
    scores = np.array([[0.25, np.nan, 0.5, 0.75]])
    table = SystemComparison(("alone",), (column("odd", scores), column("flat", np.full((1, 4), 0.5))))
    source = page_of(table)
    assert ">undefined\nundefined ± undefined<" in source
    assert "Left out: 1 undefined score." in source
    assert ">0.2500<" in source
    assert np.isnan(correlations("pearson", table)).all()
    assert source.count('<td class="undefined">undefined</td>') == 3 * 4
    assert "Correlations of two metrics over 4 segment scores. They are undefined where" in source
    nothing = page_of(SystemComparison(("alone",), (column("none", np.full((1, 3), np.nan)),)))
    assert "no segment has a score" in nothing


def test_correlations_of_metrics_are_over_all_systems() -> None:
    table = comparison(["a", "b"], 40)
    pooled = [[score for cell in column.cells for score in cell.scores] for column in table.columns]
    expected = np.asarray(np.corrcoef(pooled)).reshape(3, 3)
    values = correlations("pearson", table)
    np.testing.assert_allclose(values, expected, atol=1e-12)
    assert values[0, 2] < -0.5
    source = page_of(table)
    assert f">{expected[0][1]:.3f}<" in source
    assert "Lower scores by TER are better: a negative correlation with another metric means agreement." in source


def test_differences_of_two_systems_equal_the_paired_resamples() -> None:
    table = comparison(["a", "b", "c"], 40)
    lines = Page(page_of(table)).lines
    for i in (1, 2):
        place = lines.index(table.systems[i]) + 1
        for k, one in enumerate(table.columns):
            sign = -1 if one.errors else 1  # positive is better
            resampled = sign * (np.array(one.cells[i].resampled) - np.array(one.cells[0].resampled))
            difference = sign * (one.cells[i].score - one.cells[0].score)
            low, high = np.percentile(resampled, 2.5), np.percentile(resampled, 97.5)
            digits = 2 if one.hundred else 4
            shown = [f"{difference:+.{digits}f}*", f"{low:+.{digits}f} to {high:+.{digits}f}"]
            assert lines[place + 2 * k : place + 2 * k + 2] == shown
    assert "<title>Scores of a, b and c</title>" in page_of(table)
    assert "<title>Scores of 4 systems</title>" in page_of(comparison([*"abcd"], 3))
    apart = column("apart", np.array([[0.1, 0.2], [0.8, 0.9]]))
    for p, mark in ((0.04, "*"), (0.06, "")):  # as in the verdict, whatever the interval
        tested = apart._replace(cells=(apart.cells[0], replace(apart.cells[1], p_value=p)))
        page = Page(page_of(SystemComparison(("a", "b"), (tested,), table.resampling)))
        assert (f"+0.7000{mark}\n" in page.text, "b beats a" in page.text) == (True, bool(mark))
    assert 'id="differences"' not in page_of(SystemComparison(("a",), (column("alone", np.ones((1, 3))),)))


def test_mean_score_of_a_group_is_over_its_segments() -> None:
    references = [["one"], ["one two"], ["one two three"], ["one two three four"], ["!"], ["one two"]]
    scores = np.array([[0.1, 0.2, 0.3, 0.4, 0.5, np.nan]])
    lines = Page(page_of(SystemComparison(("alone",), (column("odd", scores),)), references)).lines
    start = lines.index("mean odd (↑ higher is better) by length of the reference") + 2
    heads = ["system", "0 to 1 words", "2 segments", "2 words", "2 segments", "3 to 4 words", "2 segments"]
    assert lines[start : start + 11] == [*heads, "alone", "0.3000", "0.2000", "0.3500"]
    start = lines.index("mean odd (↑ higher is better) by frequency of the reference's words")
    sizes = [line for line in lines[start : start + 11] if re.fullmatch(r"\d+ segments?", line)]
    assert sum(int(line.split()[0]) for line in sizes) == 5
    hundred = SystemComparison(("alone",), (column("BLEU", scores, hundred=True),))
    assert "the mean of segment scores is not the corpus score" in page_of(hundred, references)


def test_source_column_of_a_table_is_in_the_page(folder: Path, run: Run) -> None:
    pairs = enumerate(zip(GOOD, REFERENCES, strict=True))
    rows = [{"prediction": own, "reference": ref, "source": f"quelle {i}", "id": i} for i, (own, ref) in pairs]
    rows[2].pop("source")
    for given, sources in (
        (rows, ["quelle 0", "quelle 1", "", "quelle 3"]),
        ([row | {"source": 7} for row in rows], None),
    ):
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
        assert run("report -i rows.jsonl -m sbert -o report.html")[0] == 0
        assert Page((folder / "report.html").read_text(encoding="utf-8")).data["sources"] == sources


def test_scores_are_printed_when_the_page_cannot_be_written(
    files: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk(monkeypatch, "registry.paths", "report.html")
    status, out, err = run("report ref.txt -i good.txt -m twmd -q -o report.html")
    assert (status, out.splitlines()[2].startswith("twmd      good.txt")) == (1, True)
    assert err.splitlines()[-1] == "twmd: cannot write report.html: No space left on device."
    assert not (files / "report.html").exists()


def test_page_begins_with_the_verdict_of_the_first_metric() -> None:
    scores = np.random.default_rng(3).uniform(0.4, 0.6, 60)
    noise = np.random.default_rng(4).normal(0, 0.02, 60)
    streams = [[str(i)] for i in range(60)]

    def verdict_of(*systems: np.ndarray, **others: list[np.ndarray]) -> list[str]:
        sets = [twmd_registry.score(["a"] * 60, ["b"] * 60, "sbert")] * len(systems)
        own = [replace(one, by_side=values[None]) for one, values in zip(sets, systems, strict=True)]
        named = [(f"{name}.txt", ["a"] * 60) for name in "MAW"[: len(systems)]]
        test = Resampling("bs", 200, seed=1) if len(systems) > 1 else Resampling(resamples=200)
        metrics = [(twmd_registry.load("sbert"), own)]
        other = {name: [values.tolist() for values in own] for name, own in others.items()}
        return verdict(compare_systems(named, streams, metrics, resampling=test, against_all=True, scores=other))

    both = verdict_of(scores, scores + 0.1, scores + 0.1 + noise)
    assert both[0] in {"By sbert, A and W both beat M.", "By sbert, W and A both beat M."}
    assert "not separable by sbert, p = " in both[1]
    assert verdict_of(scores, scores - 0.1)[0] == "By sbert, A loses to M."
    assert verdict_of(scores, scores + noise)[0].startswith("By sbert, A is not separable from M (p = ")
    assert verdict_of(scores)[0].startswith("M scores 0.")
    apart = (scores, scores + 0.1, scores + 0.2)
    assert verdict_of(*apart, COMET=[*apart])[1:] == ["W also beats A, p = 0.005.", "COMET says the same."]
    tied = verdict_of(*apart, COMET=[scores, scores + 0.1, scores + 0.1 + noise])
    assert tied[2] == "But COMET finds W not separable from A."
    turned = [scores, scores, scores + 0.2]
    assert verdict_of(*apart, COMET=turned, BLEURT=turned)[2] == "But COMET and BLEURT find A not separable from M."
