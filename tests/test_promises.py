"""The promises of 1.x versions do not change unnoticed."""

from __future__ import annotations

import pytest

from tests.promises import FOLDER, PROMISES, written


@pytest.mark.parametrize("name", PROMISES)
def test_promise_holds(name: str) -> None:
    if name == "service":
        pytest.importorskip("mcp", reason="the service needs the extra serve")
    assert written(name) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), (
        "what users rely on has changed: say so in CHANGELOG.md, and run make promises"
    )
