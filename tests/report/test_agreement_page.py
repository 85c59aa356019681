"""``twmd report --agreement``: tables with intervals, pictures, and what a difference means, in one file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.rated_files import system_rows, write_rows


@pytest.fixture
def data(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write two rated sets: outputs of five systems, and pairs of sentences without items."""
    monkeypatch.setenv("TWMD_HOME", str(folder / "home"))
    rows = system_rows("<s>")
    lines = {"systems": rows, "pairs": [{name: row[name] for name in [*row][:3]} for row in rows]}
    return " ".join(write_rows(Path(f"{name}.jsonl"), own) for name, own in lines.items())


def test_page_has_intervals_and_pictures(data: str, run: Run) -> None:
    assert "wrote page.html" in run(f"report --agreement {data} -m sbert chrf chrf++ -o page.html -q")[1]
    page = Path("page.html").read_text(encoding="utf-8")
    sections = ["systems.jsonl", "pairs.jsonl", "Signatures"]
    assert re.findall("<h2>(.*)</h2>", page) == sections
    captions = re.findall("<caption><span>(.*)</span>", page)
    assert captions == ["pearson", "kendall", "acc_eq", "spa (of systems)", "pearson", "kendall"]
    pictures = ["scatter of systems.jsonl", "spa-systems of systems.jsonl", "scatter of pairs.jsonl"]
    assert re.findall('alt="([^"]*)"', page) == pictures
    assert re.search(r'<th scope="row">sbert</th><td>(0|1)\.\d{3}<br><small>\d\.\d{3} \.\. \d\.\d{3}</small>', page)
    assert '<th scope="row">chrf++</th>' in page
    assert "<s>0" not in page
    assert "https:" not in page
