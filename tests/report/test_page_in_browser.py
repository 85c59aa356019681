"""The report's page in headless Chromium: it sorts, filters, opens, copies, loads nothing, and runs no text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import axe_violations, check_screenshot, chromium, letters, printed
from tests.report.reports import NASTY, nasty_report, report
from tests.report.test_picture import sized
from twmd_registry.cli import main
from twmd_registry.record.content import parse_record
from twmd_registry.report.alignment_picture import draw
from twmd_registry.report.html_report import legible, report_page

OUTSIDE = """(width => [...document.querySelectorAll('body *')]
    .filter(e => !e.closest('.scroll table, .plan table, script') && e.getBoundingClientRect().right > width + 1)
    .map(e => e.outerHTML.slice(0, 80)))"""
"""Elements right of the window; tables may be wider, in boxes that scroll."""
OPEN_ALL = "document.querySelectorAll('details').forEach(one => { one.open = true; })"
DEMO = Path(__file__).parents[2] / "twmd_registry/data/demo"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    return nasty_report()


@pytest.fixture(scope="module")
def address(content: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(content, tmp_path_factory.mktemp("page"))


def write(content: dict[str, Any], folder: Path) -> str:
    path = folder / "report.html"
    path.write_bytes(report_page(**content).encode())
    return path.as_uri()


@contextmanager
def opened(browser: Any, address: str, **settings: Any) -> Iterator[Any]:
    """Open a page that may log, throw and request nothing."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | settings)
    page = context.new_page()
    page.messages, page.requests = [], set()
    page.on("console", lambda message: page.messages.append(message.text))
    page.on("pageerror", lambda error: page.messages.append(str(error)))
    page.on("dialog", lambda dialog: page.messages.append(dialog.message))
    context.on("request", lambda request: page.requests.add(request.url))
    page.goto(address)
    yield page
    assert (page.messages, page.requests) == ([], {address})
    context.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    with opened(browser, address) as page:
        yield page


def shown_segments(page: Any) -> list[int]:
    numbers = page.eval_on_selector_all("#table tbody", "all => all.map(one => one.dataset.segment)")
    return list(map(int, numbers))


def shown_scores(page: Any, metric: int, system: int) -> list[float]:
    cell = f"one.querySelectorAll('tr:not(.reference)')[{system}].querySelectorAll('td')[{metric + 1}].textContent"
    return list(map(float, page.eval_on_selector_all("#table tbody", f"all => all.map(one => {cell})")))


def texts_of(content: dict[str, Any], segment: int) -> list[str]:
    """Return a segment's texts in the order of its rows."""
    sources, predictions = content.get("sources", ()), [own[segment] for own in content["predictions"]]
    return [*sources[segment : segment + 1], *content["references"][segment], *predictions]


def test_texts_are_shown_and_run_no_script(page: Any, content: dict[str, Any]) -> None:
    rows = "all => all.map(one => [...one.querySelectorAll('td.text')].map(cell => cell.textContent))"
    shown = page.eval_on_selector_all("#table tbody", rows)
    assert shown == [list(map(legible, texts_of(content, segment))) for segment in range(25)]
    page.evaluate(OPEN_ALL)
    assert page.evaluate("window.ran === undefined && document.querySelectorAll('img, b, i').length === 0")
    assert page.evaluate("document.scripts.length") == 3


def test_metric_sorts_up_and_down_by_one_system_or_their_difference(page: Any, content: dict[str, Any]) -> None:
    scores = content["comparison"].columns[1].cells[1].scores
    page.select_option("#of", "1")
    header = page.locator("#table th", has_text="moverscore")
    for sign, name in ((1, "ascending"), (-1, "descending")):
        header.locator("button").click()
        assert header.get_attribute("aria-sort") == name
        order = sorted(range(len(scores)), key=lambda i: (round(scores[i], 4) * sign, i))[:25]
        assert shown_segments(page) == [i + 1 for i in order]
        assert shown_scores(page, 1, 1) == [float(f"{scores[i]:.4f}") for i in order]
    page.select_option("#of", "2")
    for _ in range(2):
        page.locator("#table th button", has_text="twmd").click()
    gaps = [abs(x - y) for x, y in zip(*(shown_scores(page, 0, i) for i in range(2)), strict=True)]
    first, second = (cell.scores for cell in content["comparison"].columns[0].cells)
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] == pytest.approx(max(abs(x - y) for x, y in zip(first, second, strict=True)), abs=2e-4)


def test_filter_keeps_matching_texts_and_pages_turn(page: Any, content: dict[str, Any]) -> None:
    total = len(content["references"])
    assert page.text_content("#page") == f"page 1 of {-(-total // 25)}"
    assert page.is_disabled("#previous")
    page.click("#next")
    assert shown_segments(page) == list(range(26, 51))
    page.fill("#filter", "SOURCE ")
    assert page.text_content("#found") == f"{total} of {total} segments"
    page.fill("#filter", "<IMG src=x")
    kept = [i + 1 for i in range(total) if any("<img src=x" in text.lower() for text in texts_of(content, i))]
    assert 0 < len(kept) < 25
    assert shown_segments(page) == kept
    assert page.is_disabled("#next")
    page.fill("#filter", "no text has this")
    page.press("#filter", "Enter")
    assert page.text_content("#found") == f"0 of {total} segments"


def test_segment_links_to_its_alignment(page: Any, content: dict[str, Any]) -> None:
    link = page.locator("#table a", has_text="alignment").first
    target = link.get_attribute("href") or ""
    assert int(target.removeprefix("#segment-")) - 1 in {segment for (segment, *_), _ in content["highlights"]}
    details = page.locator(f"details:has({target})")
    assert not details.locator(".plan").first.is_visible()
    link.click()
    assert details.locator(".plan").first.is_visible()
    assert page.locator(f"{target} table[data-segment] td.text").first.is_visible()


def test_buttons_copy_signatures_and_record(page: Any, content: dict[str, Any]) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copied = []
    for words in ("signatures", "record"):
        button = page.locator("button", has_text=words)
        button.click()
        button.locator("xpath=following-sibling::span", has_text="copied").wait_for()
        copied.append(page.evaluate("navigator.clipboard.readText()"))
    assert copied[0].splitlines() == [column.signature for column in content["comparison"].columns]
    assert parse_record(copied[1]) == content["record"]


def test_page_fits_a_telephone_and_follows_the_colour_scheme(browser: Any, address: str) -> None:
    with opened(browser, address, viewport={"width": 320, "height": 844}) as page:
        page.evaluate(OPEN_ALL)
        assert page.evaluate("document.documentElement.scrollWidth") == 320
        assert page.evaluate(f"{OUTSIDE}(320)") == []
        style = "(({ color, backgroundColor }) => [color, backgroundColor])(getComputedStyle(document.body))"
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            ink, paper = (sum(map(int, colour[4:-1].split(","))) for colour in page.evaluate(style))
            assert (ink < paper) is (scheme == "light")
            assert abs(ink - paper) > 450


@pytest.fixture(scope="module")
def alignment(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of an alignment that is wider than paper."""
    path = tmp_path_factory.mktemp("alignment") / "plan.html"
    draw(sized(12, 60), path)
    return path.as_uri()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 320)])
def test_axe_finds_nothing_wrong_with_report_and_alignment(
    browser: Any, address: str, alignment: str, scheme: str, width: int
) -> None:
    for shown in (address, alignment):
        with opened(browser, shown, viewport={"width": width, "height": 900}, color_scheme=scheme) as page:
            page.evaluate(OPEN_ALL)
            assert axe_violations(page) == []


def test_printed_report_and_alignment_have_every_text(
    browser: Any, address: str, alignment: str, content: dict[str, Any], tmp_path: Path
) -> None:
    for shown in (address, alignment):
        with opened(browser, shown) as page:
            text = printed(page, tmp_path / "page.pdf")
            page.evaluate(OPEN_ALL)
            cells = page.eval_on_selector_all("td, th, h1, h2, h3, h4", "all => all.map(one => one.innerText)")
            right_to_left = "\u0590", "\u08ff"  # the PDF has their letters in the order of the page
            ordered = [cell for cell in cells if not any(right_to_left[0] <= c <= right_to_left[1] for c in cell)]
            assert len(ordered) > 600
            assert [cell for cell in ordered if letters(cell) not in text] == []
            if shown == address:
                assert all(f"segment{number + 1}:" in text for number in range(len(content["references"])))
                assert len(shown_segments(page)) == 25
                assert ("page1of" in letters(page.inner_text("#page")), "page1of" in text) == (True, False)


def test_every_control_is_reached_and_used_by_the_keyboard(page: Any) -> None:
    controls = "a[href], button:enabled, input, select, summary, .scroll, .plan"
    count = page.evaluate(f"[...document.querySelectorAll('{controls}')].filter(e => e.checkVisibility()).length")
    reached = set()
    for _ in range(count):
        page.keyboard.press("Tab")
        place = "(e => [[...document.querySelectorAll('*')].indexOf(e), getComputedStyle(e).outlineStyle])"
        reached.add(tuple(page.evaluate(f"{place}(document.activeElement)")))
    assert len(reached) == count
    assert {style for _, style in reached} <= {"solid", "auto"}
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details").first.get_attribute("open") == ""
    page.locator("#table th button").last.focus()
    page.keyboard.press("Space")
    assert page.locator("#table thead th").last.get_attribute("aria-sort") == "ascending"


def test_report_of_the_packaged_example_is_the_documentation_s_picture(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    systems = [str(DEMO / f"system_{name}.jsonl") for name in "ab"]
    assert main(["report", "-i", *systems, "-m", "twmd", "bleu", "-o", str(path)]) == 0
    with opened(browser, path.as_uri(), viewport={"width": 1100, "height": 800}) as page:
        check_screenshot(page, "report.png")


def test_differing_words_are_marked_by_more_than_colour(browser: Any, tmp_path: Path) -> None:
    made = report(["a", "b"], [["the cat sat here"]], [["the dog sat here"], ["the cat sat down"]], size=3)
    marks = "[...one.querySelectorAll('mark')].map(mark => mark.textContent)"
    with opened(browser, write(made | {"sources": ["die Katze"]}, tmp_path)) as page:
        rows = page.eval_on_selector_all(
            "#table tbody tr", f"all => all.map(one => [one.cells[0].textContent, {marks}])"
        )
        assert rows == [["segment 1: sourcealignment", []], ["reference", []], ["a", ["dog"]], ["b", ["down"]]]
        style = "(s => [s.textDecorationLine, s.fontWeight])(getComputedStyle(document.querySelector('#table mark')))"
        assert page.evaluate(style) == ["underline", "600"]


def test_text_from_right_to_left_begins_at_the_right(browser: Any, tmp_path: Path) -> None:
    arabic = "\u0642\u0631\u0623 \u0627\u0644\u0648\u0644\u062f."
    made = report(["a"], [["it rains"], [arabic]], [["it rained", arabic]], size=3)
    style = "all => all.map(one => [getComputedStyle(one).direction, getComputedStyle(one).textAlign])"
    with opened(browser, write(made, tmp_path)) as page:
        shown = page.eval_on_selector_all("#table td.text", style)
    assert shown == [["ltr", "start"]] * 2 + [["rtl", "start"]] * 2


def test_tables_are_shown_without_script(browser: Any, address: str) -> None:
    with opened(browser, address, java_script_enabled=False) as page:
        assert "need this page's own script" in (page.text_content("noscript") or "")
        assert page.locator("#systems tbody tr").count() == 3  # two systems and their difference
        assert page.locator("svg.histogram").count() == 3
        assert NASTY[0] not in (page.text_content("main") or "")
