"""The report's page without a browser: what is in it, that it is one file, and that it is data."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import math
import re
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import twmd_registry
from tests.report.reports import NASTY, column, comparison, nasty_report, report
from twmd_registry.cli import main
from twmd_registry.metaeval.correlation import Statistic
from twmd_registry.record.content import Resampling, SystemComparison
from twmd_registry.record.file import parse_record, record_text
from twmd_registry.report import page_html
from twmd_registry.report.contents import correlations
from twmd_registry.report.histogram import BINS, counts_by_bin
from twmd_registry.report.page_html import legible, report_page
from twmd_registry.report.page_tables import (
    correlation_tables,
    differences_table,
    distributions,
    group_tables,
    systems_table,
)

REFERENCES = ["a cat was sitting on the mat", "it is raining", "the shop opens at nine", "she sold her old red bicycle"]
GOOD = ["the cat sat on the mat", "it rains", "the shop opens at nine", "she sold the old bicycle"]
POOR = ["cat mat", "it is sunny", "nine shops", "he bought a car"]


class Page(HTMLParser):
    """Collects a page's script elements, links and texts as a browser would split them."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.scripts: dict[str, str] = {}
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.policy = self.text = self._script = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.addresses += [
            value for name, value in known.items() if name in ("src", "href", "action", "data", "srcset")
        ]
        assert not [name for name in known if name.startswith("on")]
        if known.get("http-equiv") == "Content-Security-Policy":
            self.policy = known["content"]
        if tag == "script":
            self._script = known.get("id", "script")
            self.scripts[self._script] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = ""

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[self._script] += data
        else:
            self.text += data + "\n"

    @property
    def data(self) -> Any:
        return json.loads(self.scripts["data"])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report by the command line, of four segments, with the JSON of ``twmd score`` beside it."""
    folder = tmp_path_factory.mktemp("report")
    for name, lines in (("ref", REFERENCES), ("good", GOOD), ("poor", POOR)):
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = [str(folder / "ref.txt"), "-i", str(folder / "good.txt"), str(folder / "poor.txt")]
    assert (
        main(["report", *files, "-m", "twmd", "moverscore", "bleu", "--seed", "5", "-o", str(folder / "report.html")])
        == 0
    )
    return folder


def test_the_numbers_are_those_of_score(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(written / "ref.txt"), "-i", str(written / "good.txt"), str(written / "poor.txt")]
    assert (
        main(
            [
                "score",
                *files,
                "-m",
                "twmd",
                "moverscore",
                "bleu",
                "--seed",
                "5",
                "--paired-bs",
                "--format",
                "json",
                "-sl",
            ]
        )
        == 0
    )
    rows = json.loads(capsys.readouterr().out)
    page = Page((written / "report.html").read_text(encoding="utf-8"))
    assert page.data["systems"] == ["good.txt", "poor.txt"]
    assert [one["name"] for one in page.data["metrics"]] == ["twmd", "moverscore", "BLEU"]
    for row in rows:
        k, i = (
            [one["name"] for one in page.data["metrics"]].index(row["metric"]),
            page.data["systems"].index(row["system"]),
        )
        digits = 2 if row["metric"] == "BLEU" else 4
        assert page.data["scores"][k][i] == [float(f"{score:.{digits}f}") for score in row["scores"]]
        shown = f"{row['score']:.{digits}f}"
        interval = f"{row['mean']:.{digits}f} ± {row['ci']:.{digits}f}"
        mark = "*" if row.get("p_value", 1) < 0.05 else ""
        p_value = f"\np = {row['p_value']:.4f}" if "p_value" in row else ""
        assert f"\n{shown}{mark}\n{interval}{p_value}\n" in page.text
        assert row["signature"] in page.text


def test_the_record_in_it_is_whole_and_unedited(written: Path) -> None:
    record = parse_record(Page((written / "report.html").read_text(encoding="utf-8")).scripts["record-text"])
    assert not record.edited
    assert [system.name for system in record.systems] == ["good.txt", "poor.txt"]
    assert [result.head for result in record.systems[0].results] == ["twmd", "moverscore", "BLEU"]
    assert [one.name for one in record.inputs] == ["ref.txt", "good.txt", "poor.txt"]
    assert record.resampling == Resampling("bs", 1000, 0, 5)
    assert twmd_registry.verify_record(record, [(GOOD, REFERENCES), (POOR, REFERENCES)]).agrees


def test_the_pictures_are_of_what_was_scored(written: Path) -> None:
    source = (written / "report.html").read_text(encoding="utf-8")
    assert sorted(Page(source).data["pictured"]) == [0, 1, 2, 3]
    assert source.count("<details id=") == 4
    assert "poor.txt, twmd, F1: 0." in source
    assert re.search(r'title="sunny → raining: 0\.\d+, cosine 0\.\d{4}"', source)


def test_nothing_comes_from_elsewhere_and_one_script_is_allowed_by_its_hash() -> None:
    page = Page(report_page(nasty_report()))
    digest = base64.b64encode(hashlib.sha256(page.scripts["script"].encode()).digest()).decode()
    assert page.policy == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; base-uri "
        "'none'; form-action 'none'"
    )
    assert sorted(page.scripts) == ["data", "record-text", "script"]
    assert all(address.startswith("#") for address in page.addresses)
    assert not {"img", "link", "iframe", "object", "embed"} & set(page.tags)
    assert not re.search(r"innerHTML|insertAdjacent|document\.write|eval\(|fetch\(|XMLHttp", page.scripts["script"])


def test_every_text_arrives_as_it_was_and_can_end_no_script() -> None:
    made = nasty_report()
    source = report_page(made)
    source.encode("utf-8")
    page = Page(source)
    for name, given in (("references", made.references), ("predictions", made.predictions)):
        whole = [["".join(parts) for parts in texts] for texts in page.data[name]]
        assert whole == [[legible(text) for text in texts] for texts in given]
    assert page.data["systems"] == ["good <b>.txt", r"</script>poor\u202e\udcff.txt"]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u2028\u202a-\u202e\u2066-\u2069\ud800-\udfff]", source)
    for name in ("data", "record-text"):
        assert "<" not in page.scripts[name]
    assert parse_record(page.scripts["record-text"]) == made.record
    assert [tag for tag in page.tags if tag == "script"] == ["script"] * 3
    assert "b" not in page.tags
    assert "i" not in page.tags


@pytest.mark.parametrize(
    ("systems", "title"),
    [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c"), (["a", "b", "c", "d"], "4 systems")],
)
def test_the_title_names_up_to_three_systems(systems: list[str], title: str) -> None:
    source = report_page(report(systems, [["one"]] * 3, [["two"] * 3] * len(systems), size=3))
    assert f"<h1>Scores of {title}</h1>" in source
    assert "3 segments, 3 metrics; made 2026-01-02" in source


def test_what_cannot_be_seen_is_written_out() -> None:
    assert legible("a\x00b\u202ec\td\n") == r"a\x00b\u202ec\td\n"
    assert legible("\ud800") == r"\ud800"
    plain = "naïve 我们 👩\u200d🌾 no\u00a0break"
    assert legible(plain) == plain
    assert [text for text in NASTY if legible(text) != text] == [NASTY[3], NASTY[4], NASTY[5]]


def test_three_thousand_segments_of_two_systems_stay_below_five_megabytes() -> None:
    words = "the quick brown fox and a somewhat slower dog went over to the old harbour bridge in the rain on monday".split()
    random = np.random.default_rng(0)
    texts = [[" ".join(random.permutation(words)[:20]) for _ in range(3000)] for _ in range(3)]
    source = report_page(report(["a.txt", "b.txt"], [[text] for text in texts[0]], texts[1:]))
    assert len(Page(source).data["predictions"][1]) == 3000
    assert len(source.encode()) < 5_000_000


def test_pictures_beyond_the_room_are_left_out_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made = report(["a.txt", "b.txt"], [["one"]] * 40, [["two"] * 40] * 2)
    whole = report_page(made)
    monkeypatch.setattr(page_html, "PICTURES_BYTES", 200_000)
    monkeypatch.setattr(page_html, "PAGE_BYTES", 0)
    less = report_page(made)
    assert "No picture: the page would be too large with it" not in whole
    assert less.count("No picture: the page would be too large with it") > 5
    assert 0 < less.count('<div class="plan"') < whole.count('<div class="plan"')
    drawn = sum(len(part.encode()) for part in re.findall(r'<div class="plan".*?</div>', less, flags=re.DOTALL))
    assert drawn <= 200_000


def test_undefined_numbers_are_said_and_never_zero() -> None:
    scores = np.array([[0.25, np.nan, 0.5, 0.75]])
    table = SystemComparison(("alone",), (column("odd", scores), column("flat", np.full((1, 4), 0.5))))
    assert ">undefined\nundefined ± undefined<" in systems_table(table)
    drawn = distributions(table)
    assert "Left out: 1 undefined score." in drawn
    assert ">0.2500<" in drawn
    assert ">0.7500<" in drawn
    values = correlations(Statistic.PEARSON, table)
    assert np.isnan(values).all()
    assert correlation_tables({"pearson": values}, table).count('<td class="undefined">undefined</td>') == 4
    assert "Correlations of two metrics over 4 segment scores. They are undefined where" in correlation_tables(
        {"pearson": values}, table
    )
    assert "no segment has a score" in distributions(
        SystemComparison(("alone",), (column("none", np.full((1, 3), np.nan)),))
    )


@pytest.mark.parametrize(
    ("statistic", "theirs"),
    [(Statistic.PEARSON, stats.pearsonr), (Statistic.SPEARMAN, stats.spearmanr), (Statistic.KENDALL, stats.kendalltau)],
)
def test_correlations_are_scipys_over_all_systems_together(statistic: Statistic, theirs: Any) -> None:
    table = comparison(["a", "b"], 40)
    pooled = [[score for cell in one.cells for score in cell.segments] for one in table.columns]
    expected = [[float(theirs(x, y).statistic) for x in pooled] for y in pooled]
    found = correlations(statistic, table)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert found[0, 2] < -0.5
    shown = correlation_tables({str(statistic): found}, table)
    assert f">{expected[0][1]:.3f}<" in shown
    assert "Lower scores by TER are better: a negative correlation with another metric means agreement." in shown


def test_a_histogram_counts_every_score_once() -> None:
    random = np.random.default_rng(1)
    values = [random.normal(size=200), random.normal(size=50)]
    counts, edges = counts_by_bin(values)
    for own, row in zip(values, counts, strict=True):
        last = edges[-1]
        loop = [sum(1 for v in own if low <= v < high or (v == high == last)) for low, high in pairwise(edges)]
        assert row.tolist() == loop
    assert counts.shape == (2, BINS)
    for other in (0.5, np.nextafter(0.5, 1)):  # numpy refuses bins that are no wider than a rounding
        assert counts_by_bin([np.array([0.5, other])])[0].sum() == 2


def test_a_name_that_is_no_html_file_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.txt").touch()
    empty = str(tmp_path / "empty.txt")
    for name in ("report.pdf", "report", "report.html.gz"):
        status, err = refused(capsys, empty, "-i", empty, "-o", str(tmp_path / name))
        assert status == 2
        assert err == (
            f"twmd: -o {tmp_path / name}: a report is an HTML file; give a name that ends in .html. For a PDF, "
            "print the page in a browser.\n"
        )
    assert "empty.txt is empty" in refused(capsys, empty, "-i", empty, "-o", str(tmp_path / "report.HTM"))[1]


def test_captions_are_whole_phrases(written: Path) -> None:
    source = (written / "report.html").read_text(encoding="utf-8")
    captions = set(map(unescape, re.findall(r"<caption><span>(.*?)</span></caption>", source)))
    assert captions == {
        "corpus scores; below each, the mean of the bootstrap resamples ± half the width of their 95% interval",
        "differences between the scores of two systems; below each, its 95% interval",
        *(f"mean {name} (↑ higher is better) by length of the reference" for name in ("twmd", "moverscore", "BLEU")),
        *(
            f"mean {name} (↑ higher is better) by frequency of the reference's words"
            for name in ("twmd", "moverscore", "BLEU")
        ),
        *(f"quartiles of the segment scores by {name}" for name in ("twmd", "moverscore", "BLEU")),
        "Pearson",
        "Spearman",
        "Kendall",
        "files that were scored",
        "counts of segments, texts and tokens",
        "date and environment",
    }
    assert "Scores on a scale to 100: BLEU. All other scores are on a scale to 1." in source


def test_differences_of_any_two_systems_are_those_of_the_paired_resamples() -> None:
    table = comparison(["a", "b", "c"], 40)
    shown = Page(differences_table(table)).text.split("\n")
    for i, j in ((0, 1), (0, 2), (1, 2)):
        place = shown.index(f"{table.systems[i]} minus {table.systems[j]}")
        for k, one in enumerate(table.columns):
            first, second = one.cells[i], one.cells[j]
            drawn = sorted(x - y for x, y in zip(first.resampled, second.resampled, strict=True))
            low, high = (
                drawn[math.floor(q)] + (q % 1) * (drawn[math.floor(q) + 1] - drawn[math.floor(q)])
                for q in (0.025 * 199, 0.975 * 199)
            )
            digits = 2 if one.hundred else 4
            mark = "†" if low > 0 or high < 0 else ""
            score = f"{first.score - second.score:.{digits}f}{mark}"
            assert shown[place + 1 + 2 * k : place + 3 + 2 * k] == [score, f"{low:.{digits}f} to {high:.{digits}f}"]
    apart = column("apart", np.array([[0.1, 0.2], [0.8, 0.9]]))
    resampling = table.resampling
    assert "-0.7000†\n" in differences_table(SystemComparison(("a", "b"), (apart,), resampling))
    assert "over the 1000 resamples of the paired bootstrap" in differences_table(table)
    assert differences_table(SystemComparison(("a",), (column("alone", np.ones((1, 3))),))) == ""


def test_mean_scores_of_groups_are_over_their_segments() -> None:
    references = [["one"], ["one two"], ["one two three"], ["one two three four"], ["!"], ["one two"]]
    scores = np.array([[0.1, 0.2, 0.3, 0.4, 0.5, np.nan]])
    shown = Page(group_tables(SystemComparison(("alone",), (column("odd", scores),)), references)).text.split("\n")
    cells = [line for line in shown if line.strip()]
    by_length, by_frequency = (
        cells[cells.index(f"mean odd (↑ higher is better) by {what}") :]
        for what in ("length of the reference", "frequency of the reference's words")
    )
    heads = ["system", "0 to 1 words ", "2 segments", "2 words ", "2 segments", "3 to 4 words ", "2 segments"]
    assert by_length[1 : len(heads) + 1] == heads
    assert by_length[len(heads) + 1 : len(heads) + 5] == ["alone", "0.3000", "0.2000", "0.3500"]
    assert "1 segment" in by_frequency
    assert sum(int(line.split()[0]) for line in by_frequency if re.fullmatch(r"\d+ segments?", line)) == 5
    hundred = SystemComparison(("alone",), (column("BLEU", scores, hundred=True),))
    assert "the mean of segment scores is not the corpus score" in group_tables(hundred, references)
    nothing = SystemComparison(("alone",), (column("none", np.full((1, 6), np.nan)),))
    assert "<td>undefined</td>" in group_tables(nothing, references)


def test_sources_of_a_table_are_in_the_page_and_other_columns_are_not(tmp_path: Path) -> None:
    rows = [
        {"prediction": own, "reference": ref, "source": f"quelle {i}", "id": i}
        for i, (own, ref) in enumerate(zip(GOOD, REFERENCES, strict=True))
    ]
    rows[2].pop("source")
    given, numbers = tmp_path / "rows.jsonl", tmp_path / "numbers.jsonl"
    given.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    numbers.write_text("".join(json.dumps(row | {"source": 7}) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "good.txt").write_text("\n".join(GOOD), encoding="utf-8")
    expected = ["quelle 0", "quelle 1", "", "quelle 3"]
    for files, sources in (
        (["-i", str(given)], expected),
        ([str(given), "-i", str(tmp_path / "good.txt")], expected),
        (["-i", str(numbers)], None),
    ):
        assert main(["report", *files, "-m", "sbert", "-o", str(tmp_path / "report.html")]) == 0
        assert Page((tmp_path / "report.html").read_text(encoding="utf-8")).data["sources"] == sources


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["report", *arguments])
    return status, capsys.readouterr().err


def test_what_cannot_be_is_one_line_and_writes_nothing(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (written / "good.txt").read_bytes()
    ref, good, page = (str(written / name) for name in ("ref.txt", "good.txt", "report.html"))
    for status, words, arguments in (
        (1, "it is one of the files to score", [ref, "-i", good, page, "-o", page]),
        (1, "there is no folder", [ref, "-i", good, "-m", "twmd", "-o", str(written / "none" / "report.html")]),
        (2, "name one of them in -m", [ref, "-i", good, "-m", "bleu", "-o", str(written / "new.html")]),
        (2, "there is no metric 'twdm'", [ref, "-i", good, "-m", "twdm", "-o", str(written / "new.html")]),
        (2, "no references for", ["-i", good, "-o", str(written / "new.html")]),
    ):
        found, err = refused(capsys, *arguments)
        (error,) = [line for line in err.splitlines() if not line.startswith("twmd: warning: ")]
        assert words in error
        assert error.startswith("twmd: ")
        assert found == status
    assert (written / "good.txt").read_bytes() == before
    assert sorted(path.name for path in written.iterdir()) == ["good.txt", "poor.txt", "ref.txt", "report.html"]


def test_a_page_that_cannot_be_written_costs_no_score(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    arguments = ["report", str(written / "ref.txt"), "-i", str(written / "good.txt"), "-m", "twmd", "-q", "-o"]
    with monkeypatch.context() as patched:
        patched.setattr("twmd_registry.cli.files.write_whole", full)
        assert main([*arguments, str(tmp_path / "report.html")]) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines()[2].startswith("twmd      good.txt")
    assert printed.err.splitlines()[-1] == f"twmd: cannot write {tmp_path / 'report.html'}: No space left on device."
    assert main([*arguments, str(tmp_path / "none" / "report.html")]) == 1
    assert capsys.readouterr().out == printed.out
    assert list(tmp_path.iterdir()) == []


def test_one_system_has_intervals_and_no_test(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written.parent / "alone.html"
    assert (
        main(
            [
                "report",
                str(written / "ref.txt"),
                "-i",
                str(written / "good.txt"),
                "-m",
                "stsscore",
                "sbert",
                "ter",
                "-o",
                str(path),
            ]
        )
        == 0
    )
    *scores, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in scores[2:5]] == ["stsscore", "sbert", "TER"]
    assert last == f"wrote {path}"
    source = path.read_text(encoding="utf-8")
    assert " ± " in Page(source).text
    assert "p = " not in Page(source).text
    assert "good.txt, sbert: " in source


def test_a_round_trip_of_the_record_is_exact() -> None:
    made = nasty_report()
    assert json.loads(Page(report_page(made)).scripts["record-text"]) == json.loads(record_text(made.record))
