"""The report's page in headless Chromium: it sorts, filters, opens, copies, asks for nothing, and runs nothing of a
text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import chromium
from tests.report.reports import NASTY, nasty_report, report
from twmd_registry.record.file import parse_record
from twmd_registry.report.page_html import Report, legible, report_page

VIEW = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium; skips where it, or what drives it, is not installed."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def made() -> Report:
    return nasty_report()


@pytest.fixture(scope="module")
def address(made: Report, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(report_page(made).encode())
    return path.as_uri()


OUTSIDE = """(width => [...document.querySelectorAll('body *')]
    .filter(e => !e.closest('.scroll table, .plan table, script') && e.getBoundingClientRect().right > width + 1)
    .map(e => e.outerHTML.slice(0, 80)))"""
"""Elements right of the window; tables may be wider, in boxes that scroll."""
LONG = "w" * 196


class Watched:
    """A page with everything that it said, asked for and threw."""

    def __init__(self, browser: Any, address: str, **settings: Any) -> None:
        self.context = browser.new_context(**{"viewport": VIEW} | settings)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.context.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)

    def shown(self) -> list[int]:
        """The segments in the table, in their order."""
        numbers: list[str] = self.page.eval_on_selector_all(
            "#table tbody", "all => all.map(one => one.dataset.segment)"
        )
        return list(map(int, numbers))

    def column(self, k: int, system: int) -> list[float]:
        """What the table shows of a metric."""
        cells = (
            "(all, [k, i]) => all.map(one => one.querySelectorAll('tr:not(.reference)')[i].querySelectorAll('td')[k "
            "+ 1].textContent)"
        )
        texts: list[str] = self.page.eval_on_selector_all("#table tbody", cells, [k, system])
        return list(map(float, texts))


@pytest.fixture
def watched(browser: Any, address: str) -> Iterator[Watched]:
    """A fresh page, which must have been quiet when the test is over."""
    one = Watched(browser, address)
    yield one
    assert one.said == []
    assert set(one.asked) == {address}
    one.context.close()


def texts_of(made: Report, segment: int) -> list[str]:
    """A segment's texts in the order of its rows."""
    return [
        *(made.sources or ())[segment : segment + 1],
        *made.references[segment],
        *(own[segment] for own in made.predictions),
    ]


def test_no_text_runs_and_every_text_is_shown_as_it_is(watched: Watched, made: Report) -> None:
    rows = "all => all.map(one => [...one.querySelectorAll('td.text')].map(cell => cell.textContent))"
    shown = watched.page.eval_on_selector_all("#table tbody", rows)
    assert len(shown) == 25
    assert shown == [list(map(legible, texts_of(made, segment))) for segment in range(25)]
    watched.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert watched.page.evaluate("window.ran === undefined && document.querySelectorAll('img, b, i').length === 0")
    assert watched.page.evaluate("document.scripts.length") == 3


def test_the_policy_stops_a_script_that_got_in(browser: Any, address: str) -> None:
    one = Watched(browser, address)
    one.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1'; "
        "document.body.append(s); }"
    )
    assert one.page.evaluate("window.ran === undefined")
    one.page.evaluate(
        "() => { const i = document.createElement('img'); i.src = 'https://example.org/x.png'; "
        "document.body.append(i); }"
    )
    one.page.wait_for_timeout(200)
    assert set(one.asked) <= {address, "https://example.org/x.png"}
    assert sum("Content Security Policy" in text for text in one.said) >= 2
    one.context.close()


@pytest.mark.parametrize("system", [0, 1])
def test_a_metric_sorts_up_and_down(watched: Watched, made: Report, system: int) -> None:
    scores = made.comparison.columns[1].cells[system].segments
    watched.page.select_option("#of", str(system))
    header = watched.page.locator("#table th", has_text="moverscore")
    for falling, name in ((False, "ascending"), (True, "descending")):
        header.locator("button").click()
        assert header.get_attribute("aria-sort") == name
        order = sorted(range(len(scores)), key=lambda i: (round(scores[i], 4) * (-1 if falling else 1), i))
        assert watched.shown() == [i + 1 for i in order[:25]]
        assert watched.column(1, system) == [float(f"{scores[i]:.4f}") for i in order[:25]]


def test_the_difference_between_systems_sorts_too(watched: Watched, made: Report) -> None:
    first, second = (cell.segments for cell in made.comparison.columns[0].cells)
    watched.page.select_option("#of", "2")
    for _ in range(2):
        watched.page.locator("#table th button", has_text="twmd").click()
    gaps = [abs(x - y) for x, y in zip(*(watched.column(0, i) for i in range(2)), strict=True)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] == pytest.approx(max(abs(x - y) for x, y in zip(first, second, strict=True)), abs=2e-4)


def test_a_filter_keeps_the_texts_that_contain_it_and_pages_turn(watched: Watched, made: Report) -> None:
    total = len(made.references)
    assert watched.page.text_content("#page") == f"page 1 of {-(-total // 25)}"
    assert watched.page.is_disabled("#previous")
    watched.page.click("#next")
    assert watched.shown() == list(range(26, 51))
    watched.page.fill("#filter", "SOURCE ")
    assert watched.page.text_content("#found") == f"{total} of {total} segments"
    wanted = "<IMG src=x"
    watched.page.fill("#filter", wanted)
    kept = [i + 1 for i in range(total) if any(wanted.lower() in text.lower() for text in texts_of(made, i))]
    assert 0 < len(kept) < 25
    assert watched.shown() == kept
    assert watched.page.text_content("#found") == f"{len(kept)} of {total} segments"
    assert watched.page.is_disabled("#next")
    watched.page.fill("#filter", "no text has this")
    assert watched.shown() == []
    watched.page.press("#filter", "Enter")
    assert watched.page.text_content("#found") == f"0 of {total} segments"


def test_a_segment_leads_to_its_alignment(watched: Watched, made: Report) -> None:
    link = watched.page.locator("#table a", has_text="alignment").first
    target = link.get_attribute("href") or ""
    assert int(target.removeprefix("#segment-")) - 1 in {remark.segment for remark, _ in made.remarks}
    picture = watched.page.locator(f"{target} .plan").first
    assert not picture.is_visible()
    for _ in range(2):
        link.click()
        assert picture.is_visible()
        watched.page.evaluate("target => { document.querySelector(target).open = false; }", target)
    watched.page.locator(f"{target} summary").click()
    assert watched.page.locator(f"{target} table[data-segment] td.text").first.is_visible()


def test_the_buttons_copy_signatures_and_a_record_that_reads_back(watched: Watched, made: Report) -> None:
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for words in ("signatures", "record"):
        button = watched.page.locator("button", has_text=words)
        button.click()
        watched.page.wait_for_function("words => [...document.querySelectorAll('[data-copy]')]"
            ".find(one => one.textContent.includes(words)).nextElementSibling.textContent === 'copied'", arg=words)  # fmt: skip
        copied = watched.page.evaluate("navigator.clipboard.readText()")
        if words == "record":
            assert parse_record(copied) == made.record
        else:
            assert copied.splitlines() == [f"{column.signature}" for column in made.comparison.columns]


def test_without_a_clipboard_the_text_is_shown_to_be_copied(watched: Watched, made: Report) -> None:
    watched.page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    watched.page.locator("button", has_text="record").click()
    area = watched.page.locator("textarea")
    area.wait_for()
    assert parse_record(area.input_value()) == made.record
    assert watched.page.evaluate("document.activeElement.selectionEnd > 100")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_telephone_has_no_page_wider_than_itself(browser: Any, address: str, scheme: str, tmp_path: Path) -> None:
    one = Watched(browser, address, viewport={"width": 390, "height": 844}, color_scheme=scheme)
    one.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert one.page.evaluate("document.documentElement.scrollWidth") == 390
    assert one.page.evaluate(f"{OUTSIDE}(390)") == []
    ink, paper = one.page.evaluate(
        "(({ color, backgroundColor }) => [color, backgroundColor])(getComputedStyle(document.body))"
    )
    brightness = [sum(map(int, colour[4:-1].split(","))) for colour in (ink, paper)]
    assert (brightness[0] < brightness[1]) is (scheme == "light")
    assert abs(brightness[0] - brightness[1]) > 450
    one.context.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_names_of_200_characters_stay_inside_the_page_and_are_whole(browser: Any, width: int, tmp_path: Path) -> None:
    names = [f"{LONG}.{i}{i}{i}" for i in range(3)]
    made = report(names, [["a cat sat on the mat"]] * 6, [["the cat sat"] * 6] * 3, size=6)
    metrics = [f"{LONG}:twmd", f"{LONG}:cka ", f"{LONG}:TER "]
    columns = [column._replace(name=name) for column, name in zip(made.comparison.columns, metrics, strict=True)]
    path = tmp_path / "long.html"
    path.write_bytes(report_page(replace(made, comparison=made.comparison._replace(columns=tuple(columns)))).encode())
    one = Watched(browser, path.as_uri(), viewport={"width": width, "height": 844})
    one.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert one.page.evaluate("document.documentElement.scrollWidth") == width
    assert one.page.evaluate(f"{OUTSIDE}({width})") == []
    right = "Math.max(...[...document.querySelectorAll('caption span')].map(e => e.getBoundingClientRect().right))"
    assert one.page.evaluate(right) <= width
    assert one.page.evaluate("[...document.querySelectorAll('.scroll th')].every(e => e.scrollWidth <= e.clientWidth)")
    named = "all => all.filter(e => e.textContent.startsWith('wwww')).map(e => e.clientWidth)"
    widths = one.page.eval_on_selector_all(".scroll th", named)
    assert len(widths) > 50
    assert max(widths) <= 16 * 16
    assert one.page.evaluate(
        "[...document.querySelectorAll('.scroll')].every(e => getComputedStyle(e).overflowX === 'auto')"
    )
    heads = one.page.eval_on_selector_all("#systems > .scroll th", "all => all.map(one => one.textContent)")
    assert heads[0] == "system"
    assert [head for head in heads if head.startswith(LONG)][:3] == [
        f"{name} {'↓ lower' if 'TER' in name else '↑ higher'} is better" for name in metrics
    ]
    one.context.close()


def test_a_metrics_head_says_which_direction_is_better(watched: Watched) -> None:
    for table in (
        "#table",
        "#systems > .scroll table",
        "#differences table",
        "#correlations table",
        "#remarkable table[data-segment]",
    ):
        heads = watched.page.eval_on_selector_all(
            f"{table} thead", "all => [...all[0].querySelectorAll('th')].map(one => one.textContent)"
        )
        assert [head for head in heads if "better" in head] == [
            "twmd ↑ higher is better",
            "moverscore ↑ higher is better",
            "TER ↓ lower is better",
        ]


def test_differing_words_are_marked_by_more_than_colour(browser: Any, tmp_path: Path) -> None:
    made = report(["a", "b"], [["the cat sat here"]], [["the dog sat here"], ["the cat sat down"]], size=3)
    path = tmp_path / "marked.html"
    path.write_bytes(report_page(replace(made, sources=["die Katze"])).encode())
    one = Watched(browser, path.as_uri())
    rows = (
        "all => all.map(one => [one.cells[0].textContent, [...one.querySelectorAll('mark')].map(mark => "
        "mark.textContent)])"
    )
    assert one.page.eval_on_selector_all("#table tbody tr", rows) == [
        ["segment 1: sourcealignment", []],
        ["reference", []],
        ["a", ["dog"]],
        ["b", ["down"]],
    ]
    style = one.page.evaluate("(({ textDecorationLine, fontWeight }) => [textDecorationLine, fontWeight])"
        "(getComputedStyle(document.querySelector('#table mark')))")  # fmt: skip
    assert style == ["underline", "600"]
    one.context.close()


def test_without_script_the_tables_are_there_and_say_what_is_missing(browser: Any, address: str) -> None:
    one = Watched(browser, address, java_script_enabled=False)
    assert "need this page's own script" in (one.page.text_content("noscript") or "")
    assert one.page.locator("#systems tbody tr").count() == 3  # two systems and their difference
    assert one.page.locator("svg.histogram").count() == 3
    assert NASTY[0] not in (one.page.text_content("main") or "")
    one.context.close()
