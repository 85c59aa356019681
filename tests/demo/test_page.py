"""The page, as a browser and as a program see it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests.chromium import chromium
from tests.demo.browser import Tab, served
from twmd_registry.demo.choices import METRICS
from twmd_registry.demo.markup import table
from twmd_registry.demo.uploads import LARGEST
from twmd_registry.record.file import parse_record
from twmd_registry.registry.names import EMBEDDED_READS

MARKUP = '<script>document.title="run"</script> <img src=x onerror=\'document.title="run"\'> ${document.title="run"} {{value}}'


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gradio")


@pytest.fixture(scope="module")
def address(files: Path) -> Iterator[str]:
    with served(files) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Tab]:
    """A fresh tab for each test: the tests of one file may run in any order, and in several processes."""
    found = Tab(browser, address)
    yield found
    found.page.close()


def test_the_page_says_what_its_model_reads() -> None:
    pytest.importorskip("gradio", reason="the page needs gradio")
    from twmd_registry.demo.page import INTRODUCTION

    assert f"The model of the page reads {EMBEDDED_READS}." in INTRODUCTION


def test_a_page_that_is_served_by_a_program_does_not_advise_to_publish_it(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gradio", reason="the page needs gradio")
    from twmd_registry.demo.page import build_page

    page = build_page()
    try:
        page.launch(prevent_thread_lock=True)
    finally:
        page.close(verbose=False)
    assert capsys.readouterr().out == ""


def test_a_long_name_in_a_table_breaks_after_an_underscore() -> None:
    assert "<td>bertscore_<wbr>centered</td>" in table(("metric",), (("bertscore_centered",),), "numbers")


def scores(tab: Tab) -> dict[str, str]:
    """By metric, the score that the first tab shows."""
    cells = tab.page.locator("#scores tbody tr").all_inner_texts()
    return {row.split("\t")[0]: row.split("\t")[1] for row in cells}


def test_it_is_served_on_this_machine_only(address: str) -> None:
    assert address.startswith("http://127.0.0.1:")


def test_typing_changes_scores_and_picture(tab: Tab) -> None:
    assert list(scores(tab)) == list(METRICS)
    before, plan = tab.html("#scores"), tab.html("#plan")
    tab.fill("#references", "It is raining.")
    before, plan = tab.wait_for_change("#scores", before), tab.wait_for_change("#plan", plan)
    tab.fill("#hypothesis", "It rains.")
    tab.wait_for_change("#scores", before)
    assert "rains" in tab.wait_for_change("#plan", plan)
    for metric in METRICS:
        with twmd_registry.scorer(metric) as scorer:
            assert scores(tab)[metric] == f"{scorer.score(['It rains.'], ['It is raining.']).score:.4f}"


def test_pasting_changes_scores(tab: Tab) -> None:
    before = tab.html("#scores")
    tab.page.locator("#hypothesis textarea").click()
    tab.page.keyboard.press("Control+A")
    tab.page.keyboard.press("Control+X")
    tab.wait_for_change("#scores", before)
    empty = tab.html("#scores")
    tab.page.keyboard.press("Control+V")
    assert tab.wait_for_change("#scores", empty) == before


def test_the_slider_changes_scores_picture_and_signature(tab: Tab) -> None:
    before, plan = scores(tab), tab.html("#plan")
    shown = tab.html("#scores")
    tab.page.locator("#temperature input[type=range]").fill("0.03")
    tab.wait_for_change("#plan", plan)
    tab.wait_for_change("#scores", shown)
    after = scores(tab)
    assert {metric for metric in METRICS if after[metric] != before[metric]} == {"twmd", "trwmd"}
    tab.wait_for_value("#signature", "|temperature:0.03|")


def test_sweeps_centering_and_metric_change_the_picture(tab: Tab) -> None:
    plan = tab.html("#plan")
    tab.page.locator("#iterations").get_by_label("10").check()
    plan = tab.wait_for_change("#plan", plan)
    tab.wait_for_value("#signature", "|iterations:10|")
    for place, choice, part in (
        ("#centering", "dimension", "|centering:dimension|"),
        ("#metric", "moverscore", "moverscore|"),
    ):
        tab.page.locator(f"{place} input").click()
        tab.page.get_by_role("option", name=choice, exact=True).click()
        plan = tab.wait_for_change("#plan", plan)
        tab.wait_for_value("#signature", part)


def test_a_blank_text_is_asked_for_and_a_long_one_cut(tab: Tab) -> None:
    before = tab.html("#notices")
    tab.fill("#hypothesis", "")
    before = tab.wait_for_change("#notices", before)
    assert tab.text("#notices") == "write a hypothesis and at least one reference."
    assert tab.value("#signature") == ""
    tab.fill("#hypothesis", "rain " * 500)
    tab.wait_for_change("#notices", before)
    assert "hypothesis cut to the first 2,000 of 2,500 characters" in tab.text("#notices")


def test_no_text_is_run_as_script(tab: Tab) -> None:
    title = tab.page.title()
    plan = tab.html("#plan")
    tab.fill("#hypothesis", MARKUP)
    plan = tab.wait_for_change("#plan", plan)
    tab.fill("#references", MARKUP)
    tab.wait_for_change("#plan", plan)
    tab.open("A file")
    tab.fill("#pasted", json.dumps({"prediction": MARKUP, MARKUP: "", "references": [MARKUP]}))
    tab.page.locator("#score-file").click()
    tab.page.wait_for_selector("#distribution figure")
    assert "<script>" in tab.page.locator("#rows").inner_text()
    tab.fill("#pasted", json.dumps({MARKUP: MARKUP}))
    before = tab.html("#file-notices")
    tab.page.locator("#score-file").click()
    tab.wait_for_change("#file-notices", before)
    assert "<script>" in tab.text("#file-notices")
    tab.open("A signature")
    tab.fill("#asked", f"twmd|{MARKUP}")
    tab.page.locator("#explain").click()
    tab.page.wait_for_selector("#signature-notices p")
    assert "<img" in tab.text("#signature-notices")
    assert tab.page.title() == title
    assert tab.errors == []


def test_a_good_file_is_scored_and_can_be_downloaded(tab: Tab, tmp_path: Path) -> None:
    rows = [(f"It rains {word}.", f"It is raining {word}.") for word in ("today", "here", "again")]
    (tmp_path / "good.csv").write_text(
        "prediction,reference\n" + "".join(f"{p},{r}\n" for p, r in rows), encoding="utf-8"
    )
    tab.open("A file")
    tab.page.locator("#upload input[type=file]").set_input_files(tmp_path / "good.csv")
    tab.page.wait_for_selector("#upload [aria-label='good.csv']")
    tab.page.locator("#score-file").click()
    tab.page.wait_for_selector("#distribution figure")
    with twmd_registry.scorer("twmd") as scorer:
        found = scorer.score(*map(list, zip(*rows, strict=True)))
    assert tab.text("#file-scores").startswith("Scores of good.csv:")
    assert tab.page.locator("#file-scores tbody td").all_inner_texts()[:2] == ["twmd", f"{found.score:.4f}"]
    assert tab.value("#signatures") == str(found.signature)
    texts = {}
    for link in tab.page.locator("#downloads a").all():
        with tab.page.expect_download() as download:
            link.click()
        texts[download.value.suggested_filename] = Path(download.value.path()).read_text(encoding="utf-8")
    assert set(texts) == {"scores.tsv", "record.json"}
    record = parse_record(texts["record.json"])
    assert (record.inputs[0].name, record.systems[0].texts) == ("good.csv", found.texts)
    assert [f"{score:.6f}" for score in found.scores] == texts["scores.tsv"].splitlines()[1:]


def test_a_bad_file_gives_one_line_and_no_scores(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("prediction,refrence\na,b\n", encoding="utf-8")
    tab.open("A file")
    tab.page.locator("#upload input[type=file]").set_input_files(tmp_path / "bad.csv")
    tab.page.wait_for_selector("#upload [aria-label='bad.csv']")
    tab.page.locator("#score-file").click()
    tab.page.wait_for_selector("#file-notices p")
    assert (
        tab.text("#file-notices")
        == "bad.csv, row 1 (the header): no column 'reference'; did you mean 'refrence'? Choices: prediction, refrence."
    )
    assert tab.page.locator("#distribution figure").count() == 0
    assert not tab.page.locator("#downloads").is_visible()


def score_file(tab: Tab) -> str:
    """Press Score, and wait for the line that it gives."""
    before = tab.html("#file-notices")
    tab.page.locator("#score-file").click()
    tab.wait_for_change("#file-notices", before)
    return tab.text("#file-notices")


def test_score_with_nothing_entered_asks_for_a_table(tab: Tab) -> None:
    tab.open("A file")
    asked = "Nothing to score: upload a table, or paste one, with the columns prediction and reference."
    assert score_file(tab) == asked
    tab.fill("#pasted", "prediction;reference\nIt rains.;It is raining, I think.\n")
    tab.page.locator("#score-file").click()
    tab.page.wait_for_selector("#distribution figure")
    tab.fill("#pasted", "")
    tab.page.wait_for_selector("#distribution figure", state="detached")
    assert not tab.page.locator("#downloads").is_visible()
    assert score_file(tab) == asked


def test_after_a_refused_file_no_scores_are_shown_and_a_good_file_is_scored(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("prediction,reference\nIt rains.,It is raining.\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no table\n", encoding="utf-8")
    tab.open("A file")

    def upload_and_score_good_file() -> None:
        tab.page.locator("#upload input[type=file]").set_input_files(tmp_path / "good.csv")
        tab.page.wait_for_selector("#upload [aria-label='good.csv']")
        tab.page.locator("#score-file").click()
        tab.page.wait_for_selector("#distribution figure")

    upload_and_score_good_file()
    tab.page.locator("#upload").get_by_label("Clear").click()
    tab.page.wait_for_selector("#distribution figure", state="detached")
    assert not tab.page.locator("#downloads").is_visible()
    tab.page.locator("#upload input[type=file]").set_input_files(tmp_path / "notes.txt")
    tab.page.get_by_text("Invalid file type").first.wait_for()
    assert score_file(tab).startswith("Nothing to score: upload a table")
    upload_and_score_good_file()


def test_a_temperature_out_of_range_leaves_no_old_score(tab: Tab) -> None:
    assert scores(tab)
    tab.page.locator("#temperature input[type=number]").fill("3")
    tab.page.wait_for_selector("#notices .twmd-error")
    assert tab.text("#notices") == "temperature=3 is not possible here: expected 0.01 to 0.5, or 0 for the preset's."
    assert (scores(tab), tab.value("#signature"), tab.page.locator("#plan table").count()) == ({}, "", 0)
    tab.page.locator("#temperature input[type=number]").press("Tab")  # puts the nearest temperature there
    tab.page.wait_for_selector("#scores td")
    tab.wait_for_value("#signature", "|temperature:0.5|")


def test_a_temperature_that_is_deleted_is_refused_without_a_traceback(
    tab: Tab, capfd: pytest.CaptureFixture[str]
) -> None:
    tab.page.locator("#temperature input[type=number]").fill("")
    tab.page.wait_for_selector("#notices .twmd-error")
    assert tab.text("#notices").startswith("temperature=nan is not possible here")
    assert scores(tab) == {}
    assert "Traceback" not in capfd.readouterr().err


def test_a_file_and_a_pasted_table_are_not_taken_for_one_another(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("prediction,refrence\na,b\n", encoding="utf-8")
    tab.open("A file")
    tab.page.locator("#upload input[type=file]").set_input_files(tmp_path / "bad.csv")
    tab.page.wait_for_selector("#upload [aria-label='bad.csv']")
    tab.fill("#pasted", "prediction,reference\nIt rains.,It is raining.\n")
    assert score_file(tab) == "There are an uploaded file and a pasted table: remove one of them."
    tab.page.locator("#upload").get_by_label("Clear").click()
    tab.page.locator("#score-file").click()
    tab.page.wait_for_selector("#distribution figure")


def test_a_signature_is_explained(tab: Tab) -> None:
    with twmd_registry.scorer("trwmd", temperature=0.02) as scorer:
        signature = scorer.signature
    tab.open("A signature")
    tab.fill("#asked", signature)
    tab.page.locator("#explain").click()
    tab.page.wait_for_selector("#fields table")
    rows = [row.split("\t") for row in tab.page.locator("#fields tbody tr").all_inner_texts()]
    assert ["temperature", "0.02", "T of the tempered plan; small is greedy", "no, 0.15"] in rows
    assert tab.value("#command") == f"twmd score REF.txt -i HYP.txt -m '{signature}'"


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "light"), (390, "dark"), (1280, "dark")])
def test_it_fits_its_window_in_both_themes(width: int, theme: str, browser: Any, address: str, tmp_path: Path) -> None:
    tab = Tab(browser, address, width, theme)
    ink = tab.page.evaluate(
        "getComputedStyle(document.querySelector('#scores td')).color.match(/[0-9]+/g).slice(0, 3).map(Number)"
    )
    assert (sum(ink) > 3 * 128) is (theme == "dark")
    signature = tab.value("#signature")
    for name, place in (
        ("Two texts", "#plan table"),
        ("A file", "#distribution figure"),
        ("A signature", "#fields table"),
    ):
        tab.open(name)
        if name == "A file":
            tab.fill(
                "#pasted",
                "prediction,reference\n" + "It rains all day.,It rained the whole day long.\nSo be it,Never\n" * 9,
            )
            tab.page.locator("#score-file").click()
        if name == "A signature":
            tab.fill("#asked", signature)
            tab.page.locator("#explain").click()
        tab.page.wait_for_selector(place)
        assert tab.overflow() == 0
        assert tab.cut_labels() == []
        picture = tmp_path / f"{name.replace(' ', '-')}-{width}-{theme}.png"
        tab.page.screenshot(path=picture, full_page=True)
        assert picture.stat().st_size > 20_000
    assert tab.foreign() == []
    assert len(tab.requests) > 10
    assert tab.errors == []
    tab.page.close()


@pytest.fixture(scope="module")
def client(address: str) -> Any:
    return pytest.importorskip("gradio_client").Client(address, verbose=False)


def test_a_program_scores_texts(client: Any) -> None:
    found = client.predict("It rains.", ["It is raining.", "Rain\nfalls."], temperature=0.05, api_name="/score_texts")
    with twmd_registry.scorer("twmd", temperature=0.05) as scorer:
        expected = scorer.score(["It rains."], [["It is raining.", "Rain falls."]])
    assert found["scores"][0]["score"] == f"{expected.score:.4f}"
    assert found["signature"] == str(expected.signature)
    with pytest.raises(Exception, match="is not possible here"):
        client.predict("a", ["b"], centering="background:/a/file", api_name="/score_texts")


def test_a_program_scores_a_table_and_has_a_signature_explained(client: Any) -> None:
    found = client.predict("prediction,reference\nIt rains.,It is raining.\n", ["sbert"], api_name="/score_table")
    with twmd_registry.scorer("sbert") as scorer:
        expected = scorer.score(["It rains."], ["It is raining."])
    assert parse_record(found["record"]).systems[0].results[0].scores == pytest.approx(expected.scores, abs=1e-5)
    fields = client.predict(str(expected.signature), api_name="/explain_signature")["fields"]
    assert {
        "key": "vectors",
        "value": "raw",
        "meaning": "token vectors of length one, or as they are",
        "default": "yes",
    } in fields
    with pytest.raises(Exception, match=r"row 1 \(the header\): no column 'reference'"):
        client.predict("prediction\na\n", ["sbert"], api_name="/score_table")


def test_the_api_is_documented_and_holds_nothing_else(client: Any) -> None:
    endpoints = client.view_api(return_format="dict")["named_endpoints"]
    assert set(endpoints) == {"/score_texts", "/score_table", "/explain_signature"}
    assert all(endpoint.get("description") for endpoint in endpoints.values())


def test_a_file_that_is_too_large_is_turned_away(client: Any, address: str, files: Path) -> None:
    import httpx

    before = {path for path in files.rglob("*") if path.is_file()}
    answer = httpx.post(
        f"{address}gradio_api/upload", files={"files": ("big.csv", b"x" * (LARGEST + 1))}, trust_env=False
    )
    assert answer.status_code == 413
    assert {path for path in files.rglob("*") if path.is_file()} == before
