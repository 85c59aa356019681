"""A page that is served, and a browser to look at it with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PATIENCE_MS = 120_000


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Yield the address of a page, which keeps its files in a folder."""
    pytest.importorskip("gradio", reason="the page needs gradio")
    from twmd_registry.demo.page import build_page

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(folder))
        page = build_page()
        try:
            _, address, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)
            yield address
        finally:
            page.close(verbose=False)


class Tab:
    """A tab of the browser on the page, which notes what it asks for and what goes wrong."""

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
        """Return what a place shows, without Gradio's own signs of work in progress."""
        return str(self.page.locator(f"{place} .prose").inner_html())

    def wait_for_change(self, place: str, before: str) -> str:
        """Return what a place shows once it is another than before."""
        self.page.wait_for_function(
            "([place, before]) => document.querySelector(place).innerHTML !== before", arg=[f"{place} .prose", before]
        )
        return self.html(place)

    def wait_for_value(self, place: str, part: str) -> None:
        """Wait until a box holds a text."""
        self.page.wait_for_function(
            "([place, part]) => document.querySelector(place).value.includes(part)", arg=[f"{place} textarea", part]
        )

    def overflow(self) -> int:
        """Pixels that the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    def cut_labels(self) -> list[str]:
        """Labels that are wider than their place."""
        script = """[...document.querySelectorAll('th, .twmd-table td:first-child, label span')].filter(
            label => label.clientWidth > 0 && label.scrollWidth > label.clientWidth + 1
        ).map(label => label.innerText)"""
        return list(self.page.evaluate(script))

    def foreign(self) -> list[str]:
        """Requests to anywhere but the page's server."""
        return [url for url in self.requests if not url.startswith((self.address, "data:", "blob:"))]
