"""Progress reports add up to the number of segments, whether texts are encoded once, twice or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests import tiny
from twmd_registry.engine import pipeline

TEXTS = ["the cat sat", "a dog ran over the hill", "it", "the cat sat", "the cat sat on the mat"]
REFERENCES = [["a cat sat on the mat"], ["it ran", "a dog ran"], ["we saw it"], ["a cat sat on the mat"], ["it"]]


@pytest.mark.parametrize(
    "keys",
    [
        [{"centering": "none"}],
        [{"centering": "corpus"}],
        [{"centering": "none"}, {"centering": "none", "dtype": "bfloat16"}],
        [{"centering": "none", "truncation": "window:4/2"}],
        [{"centering": "none", "keep_references": "1MB"}],
        [],
    ],
    ids=["one pass", "two passes", "two encoders", "windows", "kept references", "regression model"],
)
def test_reports_add_up_to_the_segments(keys: list[dict[str, str]], bert: str, tmp_path: Path) -> None:
    scorers = [twmd_registry.scorer("twmd", model=bert, layer=1, **scorer_keys) for scorer_keys in keys]
    if not scorers:
        folder = str(tiny.save_regressor(tmp_path / "model"))
        scorers = [twmd_registry.scorer("stsscore", model=folder, scale=5, symmetric=True)]
    for _ in range(2):  # the second time by kept references
        done: list[int] = []
        twmd_registry.score_all(scorers, TEXTS, REFERENCES, progress=done.append)
        assert sum(done) == len(TEXTS)
        assert min(done) > 0


def test_last_report_follows_the_last_alignment(bert: str) -> None:
    scorers = [twmd_registry.scorer("twmd", model=bert, layer=1, temperature=0.1 + i / 100) for i in range(40)]
    order, align = list[str](), pipeline.align_pairs

    def note(*given: Any) -> Any:
        order.append("aligned")
        return align(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "align_pairs", note)
        twmd_registry.score_all(scorers, TEXTS, REFERENCES, progress=lambda segments: order.append("reported"))
    assert order[-1] == "reported"  # not full when all texts are encoded: most of the work is still to come
