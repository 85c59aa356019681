"""Helpers for the tests of several frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from twmd_registry.engine.pairs import Segments
from twmd_registry.engine.scorer import Scorer
from twmd_registry.engine.shared_passes import score_together


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of requests of every shared pass."""
    found: list[int] = []

    def counted(scorer: Scorer, tasks: Sequence[Segments]) -> Any:
        found.append(len(tasks))
        return score_together(scorer, tasks)

    monkeypatch.setattr("twmd_registry.engine.shared_passes.score_together", counted)
    return found
