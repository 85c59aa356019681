"""What a 1.x version promises does not change in silence."""

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
