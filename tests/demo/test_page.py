"""The page in a browser, and its API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests.chromium import axe_violations, check_screenshot, chromium
from twmd_registry.demo.answers import LARGEST, METRICS
from twmd_registry.record.content import parse_record
from twmd_registry.template import render

PATIENCE_MS = 120_000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gradio")


@pytest.fixture(scope="module")
def address(files: Path) -> Iterator[str]:
    """Yield the address of a page, which keeps its files in a folder."""
    pytest.importorskip("gradio", reason="the page needs gradio")
    from twmd_registry.demo.page import build_page

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(files))
        page = build_page()
        try:
            _, address, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)
            yield address
        finally:
            page.close(verbose=False)


class Tab:
    """A tab of the browser on the page, which records its requests and errors."""

    def __init__(self, browser: Any, address: str, width: int = 1280, theme: str = "light") -> None:
        self.address = address
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page = browser.new_page(viewport={"width": width, "height": 900})
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.goto(f"{address}?__theme={theme}")
        self.page.wait_for_selector("#plan table")

    def _dismiss(self, dialog: Any) -> None:
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, name: str) -> None:
        self.page.get_by_role("tab", name=name).click()

    def text(self, place: str) -> str:
        return str(self.page.locator(f"{place} .prose").inner_text())

    def value(self, place: str) -> str:
        return str(self.page.locator(f"{place} textarea").input_value())

    def fill(self, place: str, text: str) -> None:
        self.page.locator(f"{place} textarea").fill(text)

    def html(self, place: str) -> str:
        """Return an element's content, without Gradio's progress indicators."""
        return str(self.page.locator(f"{place} .prose").inner_html())

    def wait_for_change(self, place: str, before: str) -> str:
        """Return an element's content once it differs from `before`."""
        self.page.wait_for_function(
            "([place, before]) => document.querySelector(place).innerHTML !== before", arg=[f"{place} .prose", before]
        )
        return self.html(place)

    def wait_for_value(self, place: str, part: str) -> None:
        """Wait until a text box contains a text."""
        self.page.wait_for_function(
            "([place, part]) => document.querySelector(place).value.includes(part)", arg=[f"{place} textarea", part]
        )

    def overflow(self) -> int:
        """Number of pixels by which the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    def cut_labels(self) -> list[str]:
        """Labels that are wider than their containers."""
        script = """[...document.querySelectorAll('th, .twmd-table td:first-child, label span')].filter(
            label => label.clientWidth > 0 && label.scrollWidth > label.clientWidth + 1
        ).map(label => label.innerText)"""
        return list(self.page.evaluate(script))

    def foreign(self) -> list[str]:
        """Requests to other servers than the page's."""
        return [url for url in self.requests if not url.startswith((self.address, "data:", "blob:"))]


MARKUP = (
    '<script>document.title="run"</script> <img src=x onerror=\'document.title="run"\'> '
    '${document.title="run"} {{value}}'
)
ROWS = [(f"It rains {word}.", f"It is raining {word}.") for word in ("today", "here", "again")]
INK = "getComputedStyle(document.querySelector('#scores td')).color.match(/[0-9]+/g).slice(0, 3).map(Number)"
"""The colour of a score: dark where the sum is small."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as result:
        yield result


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Tab]:
    """Yield a fresh tab for each test: the tests of one file may run in any order, and in several processes."""
    result = Tab(browser, address)
    yield result
    result.page.close()


def test_cells_of_a_table_are_escaped_and_break_after_an_underscore() -> None:
    html = render("table.html", "demo", headers=("<b>",), rows=(("a_<b>",),), kind="numbers")
    assert "<td>a_<wbr>&lt;b&gt;</td>" in html
    assert "<b>" not in html


def scores(tab: Tab) -> dict[str, str]:
    """Return the score that the first tab shows, by metric."""
    cells = tab.page.locator("#scores tbody tr").all_inner_texts()
    return {row.split("\t")[0]: row.split("\t")[1] for row in cells}


def score_good_file(tab: Tab) -> None:
    """Press Score, and wait for the distribution of the scores."""
    tab.page.locator("#score-file").click()
    tab.page.wait_for_selector("#distribution figure")


def upload(tab: Tab, path: Path, text: str) -> None:
    """Upload a file with a text."""
    path.write_text(text, encoding="utf-8")
    tab.page.locator("#upload input[type=file]").set_input_files(path)
    tab.page.wait_for_selector(f"#upload [aria-label='{path.name}']")


def test_visitor_scores_two_texts_a_file_and_reads_a_signature(tab: Tab, tmp_path: Path) -> None:
    title = tab.page.title()
    assert list(scores(tab)) == list(METRICS)
    before, plan = tab.html("#scores"), tab.html("#plan")
    tab.fill("#references", "It is raining.")
    before, plan = tab.wait_for_change("#scores", before), tab.wait_for_change("#plan", plan)
    tab.fill("#hypothesis", "It rains.")
    before = tab.wait_for_change("#scores", before)
    plan = tab.wait_for_change("#plan", plan)
    assert "rains" in plan
    for metric in METRICS:
        with twmd_registry.load(metric) as scorer:
            assert scores(tab)[metric] == f"{scorer.score(['It rains.'], ['It is raining.']).score:.4f}"
    tab.page.locator("#keys button").first.click()
    tab.page.locator("#temperature input[type=range]").fill("0.03")
    plan = tab.wait_for_change("#plan", plan)
    tab.wait_for_value("#signature", "|temperature:0.03|")
    tab.fill("#hypothesis", MARKUP)
    tab.wait_for_change("#plan", plan)

    tab.open("A file")
    upload(tab, tmp_path / "good.csv", "prediction,reference\n" + "".join(f"{p},{r}\n" for p, r in ROWS))
    score_good_file(tab)
    with twmd_registry.load("twmd") as scorer:
        result = scorer.score(*map(list, zip(*ROWS, strict=True)))
    assert tab.page.locator("#file-scores tbody td").all_inner_texts()[:2] == ["twmd", f"{result.score:.4f}"]
    assert tab.value("#signatures") == str(result.signature)
    texts = {}
    for link in tab.page.locator("#downloads a").all():
        with tab.page.expect_download() as download:
            link.click()
        texts[download.value.suggested_filename] = Path(download.value.path()).read_text(encoding="utf-8")
    record = parse_record(texts["record.json"])
    assert (record.inputs[0].name, record.systems[0].texts) == ("good.csv", result.texts)
    assert [f"{score:.6f}" for score in result.scores] == texts["scores.tsv"].splitlines()[1:]

    tab.open("A signature")
    tab.fill("#asked", f"twmd|{MARKUP}")
    tab.page.locator("#explain").click()
    tab.page.wait_for_selector("#signature-notices p")
    assert "<img" in tab.text("#signature-notices")
    assert (tab.page.title(), tab.errors, tab.foreign()) == (title, [], [])
    assert len(tab.requests) > 10


def test_bad_input_shows_a_notice_and_clears_old_scores(
    tab: Tab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = tab.html("#plan")
    tab.fill("#hypothesis", "It rains.")
    tab.wait_for_change("#plan", plan)  # by now the page has read its link
    tab.page.locator("#keys button").first.click()
    tab.page.locator("#temperature input[type=number]").fill("3")
    tab.page.wait_for_selector("#notices .twmd-error")
    assert "temperature=3" in tab.text("#notices")
    assert (scores(tab), tab.value("#signature"), tab.page.locator("#plan table").count()) == ({}, "", 0)
    tab.page.locator("#temperature input[type=number]").press("Tab")  # puts the nearest temperature there
    tab.page.wait_for_selector("#scores td")
    tab.wait_for_value("#signature", "|temperature:0.5|")

    tab.open("A file")
    tab.fill("#pasted", "prediction;reference\nIt rains.;It is raining, I think.\n")
    score_good_file(tab)
    tab.fill("#pasted", "")
    upload(tab, tmp_path / "bad.csv", "prediction,refrence\na,b\n")
    tab.page.wait_for_selector("#distribution figure", state="detached")
    tab.page.locator("#score-file").click()
    tab.page.wait_for_selector("#file-notices p")
    assert "bad.csv, row 1" in tab.text("#file-notices")
    assert not tab.page.locator("#downloads").is_visible()
    assert "Traceback" not in capfd.readouterr().err


def test_page_is_accessible_and_fits_in_both_themes(browser: Any, address: str) -> None:
    tab = Tab(browser, address, 320, "dark")
    assert sum(tab.page.evaluate(INK)) > 3 * 128
    signature = tab.value("#signature")
    tab.open("A file")
    row = "It rains all day.,It rained the whole day long.\nSo be it,Never\n"
    tab.fill("#pasted", "prediction,reference\n" + row * 9)
    score_good_file(tab)
    tab.open("A signature")
    tab.fill("#asked", signature)
    tab.page.locator("#explain").click()
    places = {"Two texts": "#plan table", "A file": "#distribution figure", "A signature": "#fields table"}
    for name, place in places.items():
        tab.open(name)
        tab.page.wait_for_selector(place)
        tab.page.wait_for_timeout(300)  # colours change gradually
        assert (tab.overflow(), tab.cut_labels(), axe_violations(tab.page)) == (0, [], [])
    tab.page.goto(f"{address}?__theme=light")
    tab.page.wait_for_selector("#scores td")
    assert sum(tab.page.evaluate(INK)) < 3 * 128
    tab.page.set_viewport_size({"width": 1280, "height": 900})
    assert tab.page.evaluate("document.querySelector('#plan tfoot').getBoundingClientRect().bottom < innerHeight")
    assert axe_violations(tab.page) == []
    check_screenshot(tab.page, "demo.png")
    tab.page.close()


@pytest.fixture(scope="module")
def client(address: str) -> Any:
    return pytest.importorskip("gradio_client").Client(address, verbose=False)


def test_program_scores_a_table_and_explains_a_signature(client: Any) -> None:
    result = client.predict("prediction,reference\nIt rains.,It is raining.\n", ["sbert"], api_name="/score_table")
    with twmd_registry.load("sbert") as scorer:
        expected = scorer.score(["It rains."], ["It is raining."])
    assert parse_record(result["record"]).systems[0].results[0].scores == pytest.approx(expected.scores, abs=1e-5)
    fields = client.predict(str(expected.signature), api_name="/explain_signature")["fields"]
    (vectors,) = (field for field in fields if field["key"] == "vectors")
    assert (vectors["value"], vectors["default"]) == ("raw", "yes")
    with pytest.raises(Exception, match=r"row 1 \(the header\): no column 'reference'"):
        client.predict("prediction\na\n", ["sbert"], api_name="/score_table")


def test_api_is_documented_and_has_no_other_endpoints(client: Any) -> None:
    endpoints = client.view_api(return_format="dict")["named_endpoints"]
    assert set(endpoints) == {"/score_texts", "/score_table", "/explain_signature"}
    assert all(endpoint.get("description") for endpoint in endpoints.values())


def test_too_large_file_is_refused_and_not_stored(client: Any, address: str, files: Path) -> None:
    import httpx

    before = {path for path in files.rglob("*") if path.is_file()}
    answer = httpx.post(
        f"{address}gradio_api/upload", files={"files": ("big.csv", b"x" * (LARGEST + 1))}, trust_env=False
    )
    assert answer.status_code == 413
    assert {path for path in files.rglob("*") if path.is_file()} == before
