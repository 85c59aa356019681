"""A headless browser for testing pages."""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = "chromium", "chromium-browser", "chromium-headless-shell", "google-chrome"
PICTURES = Path(__file__).parents[1] / "docs/pictures"
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a headless browser; skip the test without one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
    if CHROMIUM is None:
        pytest.skip("browser tests need chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def axe_violations(page: Any) -> list[tuple[str, str]]:
    """Return axe-core's violations on a page: the rule and the first element."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()
    rules = {"image-redundant-alt": {"enabled": False}}  # Gradio's footer names its icons twice
    found = axe.run(page, options={"rules": rules}).response["violations"]
    return [(violation["id"], violation["nodes"][0]["html"]) for violation in found]


def printed(page: Any, path: Path) -> str:
    """Print a page to a PDF file, and return its text without spaces."""
    pypdf = pytest.importorskip("pypdf", reason="needs pypdf")
    page.pdf(path=path, prefer_css_page_size=True)
    return letters("".join(sheet.extract_text() for sheet in pypdf.PdfReader(path).pages))


def letters(text: str) -> str:
    """Return a text without spaces and ligatures."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def check_screenshot(page: Any, name: str) -> None:
    """Check that the documentation's picture of a page is as large as the page; `SCREENSHOTS=1` takes it again."""
    taken, path = page.screenshot(), PICTURES / name
    if os.environ.get("SCREENSHOTS"):
        path.write_bytes(taken)
    size = slice(16, 24)  # width and height in a PNG
    assert taken[size] == path.read_bytes()[size]
