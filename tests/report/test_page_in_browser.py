"""The report's page in headless Chromium: one reader's journey, its accessibility, and its print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import axe_violations, check_screenshot, chromium, letters, printed
from tests.report.reports import nasty_report, report
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
CONTROLS = "a[href], button:enabled, input, select, summary, .scroll, .plan"
DEMO = Path(__file__).parents[2] / "twmd_registry/data/demo"
ARABIC = "\u0642\u0631\u0623 \u0627\u0644\u0648\u0644\u062f."


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the addresses of a report of three segments, and of an alignment that is wider than paper."""
    folder = tmp_path_factory.mktemp("small")
    texts = ["the dog sat here", ARABIC, "it rained"], ["the cat sat down", ARABIC, "it rains"]
    made = report(["a", "b"], [["the cat sat here"], [ARABIC], ["it rains"]], texts, size=3)
    draw(sized(4, 60), folder / "plan.html")
    sources = ["die Katze", "Quelle", "es regnet"]
    return [write(made | {"sources": sources}, folder), (folder / "plan.html").as_uri()]


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


def shown_segments(page: Any) -> list[int]:
    numbers = page.eval_on_selector_all("#table tbody", "all => all.map(one => one.dataset.segment)")
    return list(map(int, numbers))


def shown_scores(page: Any, metric: int, system: int) -> list[float]:
    cell = f"one.querySelectorAll('tr:not(.reference)')[{system}].querySelectorAll('td')[{metric + 1}].textContent"
    return list(map(float, page.eval_on_selector_all("#table tbody", f"all => all.map(one => {cell})")))


def texts_of(content: dict[str, Any], segment: int) -> list[str]:
    """Return a segment's texts in the order of its rows."""
    predictions = [own[segment] for own in content["predictions"]]
    return [content["sources"][segment], *content["references"][segment], *predictions]


def test_reader_sorts_filters_follows_a_link_and_copies(browser: Any, tmp_path: Path) -> None:
    content = nasty_report()
    total, columns = len(content["references"]), content["comparison"].columns
    with opened(browser, write(content, tmp_path)) as page:
        page.click("#every > summary")  # closed by default
        rows = "all => all.map(one => [...one.querySelectorAll('td.text')].map(cell => cell.textContent))"
        shown = page.eval_on_selector_all("#table tbody", rows)
        assert shown == [list(map(legible, texts_of(content, segment))) for segment in range(25)]
        assert page.text_content("#page") == f"page 1 of {-(-total // 25)}"
        page.click("#next")
        assert shown_segments(page) == list(range(26, 51))

        scores = columns[1].cells[1].scores
        page.select_option("#of", "1")
        header = page.locator("#table th", has_text="moverscore")
        for sign, name in ((1, "ascending"), (-1, "descending")):
            header.locator("button").click()
            assert header.get_attribute("aria-sort") == name
            order = sorted(range(total), key=lambda i: (round(scores[i], 4) * sign, i))[:25]
            assert shown_segments(page) == [i + 1 for i in order]
            assert shown_scores(page, 1, 1) == [float(f"{scores[i]:.4f}") for i in order]
        page.select_option("#of", "2")  # the difference of the systems
        for _ in range(2):
            page.locator("#table th button", has_text="twmd").click()
        gaps = [abs(x - y) for x, y in zip(*(shown_scores(page, 0, i) for i in range(2)), strict=True)]
        assert gaps == sorted(gaps, reverse=True)

        page.fill("#filter", "<IMG src=x")
        kept = [i + 1 for i in range(total) if any("<img src=x" in text.lower() for text in texts_of(content, i))]
        assert 0 < len(kept) < 25
        assert sorted(shown_segments(page)) == kept
        page.fill("#filter", "no text has this")
        page.press("#filter", "Enter")
        assert page.text_content("#found") == f"0 of {total} segments"
        page.fill("#filter", "")

        link = page.locator("#table a", has_text="alignment").first
        target = link.get_attribute("href") or ""
        details = page.locator(f"details:has({target})")
        assert not details.locator(".plan").first.is_visible()
        link.click()
        assert details.locator(".plan").first.is_visible()

        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        copied = []
        for words in ("signatures", "record"):
            button = page.locator("button", has_text=words)
            button.click()
            button.locator("xpath=following-sibling::span", has_text="copied").wait_for()
            copied.append(page.evaluate("navigator.clipboard.readText()"))
        assert copied[0].splitlines() == [column.signature for column in columns]
        assert parse_record(copied[1]) == content["record"]

        page.evaluate(OPEN_ALL)
        assert page.evaluate("window.ran === undefined && document.querySelectorAll('img, b, i').length === 0")
        assert page.evaluate("document.scripts.length") == 3

        text = printed(page, tmp_path / "page.pdf")  # every segment, not only the page shown
        assert all(f"segment{number + 1}:" in text for number in range(total))
        assert "page1of" not in text


def test_every_control_is_used_by_the_keyboard(browser: Any, small: list[str]) -> None:
    with opened(browser, small[0]) as page:
        count = page.evaluate(f"[...document.querySelectorAll('{CONTROLS}')].filter(e => e.checkVisibility()).length")
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
        page.evaluate(OPEN_ALL)
        page.locator("#table thead th button").last.focus()
        page.keyboard.press("Space")
        assert page.locator("#table thead th").last.get_attribute("aria-sort") == "ascending"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 320)])
def test_report_and_alignment_are_accessible_and_fit(
    browser: Any, small: list[str], scheme: str, width: int, tmp_path: Path
) -> None:
    for address in small:
        with opened(browser, address, viewport={"width": width, "height": 900}, color_scheme=scheme) as page:
            page.evaluate(OPEN_ALL)
            assert axe_violations(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") == width
            assert page.evaluate(f"{OUTSIDE}({width})") == []
            style = "(({ color, backgroundColor }) => [color, backgroundColor])(getComputedStyle(document.body))"
            ink, paper = (sum(map(int, colour[4:-1].split(","))) for colour in page.evaluate(style))
            assert (ink < paper) is (scheme == "light")
            text = printed(page, tmp_path / "page.pdf")
            cells = page.eval_on_selector_all("td, th, h1, h2, h3, h4", "all => all.map(one => one.innerText)")
            # The PDF has Arabic letters in the order of the page.
            assert [cell for cell in cells if ARABIC not in cell and letters(cell) not in text] == []


def test_report_of_the_packaged_example_is_the_documentation_s_picture(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    systems = [str(DEMO / f"system_{name}.jsonl") for name in "ab"]
    assert main(["report", "-i", *systems, "-m", "twmd", "bleu", "-o", str(path)]) == 0
    with opened(browser, path.as_uri(), viewport={"width": 1100, "height": 800}) as page:
        check_screenshot(page, "report.png")
