"""``twmd report --agreement``: tables with intervals, pictures, and what a difference means, in one file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.rated_files import system_rows, write_rows

DOCS = Path(__file__).resolve().parents[2] / "docs"
LARGEST_PICTURE = 90_000


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


def test_page_of_a_challenge_set_has_no_accuracy_of_systems(data: str, run: Run) -> None:
    edits = [("one two three", "one two"), ("four five six", "four four six"), ("seven eight", "seven ate")]
    rows: list[dict[str, object]] = [
        {"pert_name": kind, "id": i, "eng_sent": text, "mt_sent": text, "pert_sent": edited}
        for kind in ("omission", "typo")
        for i, (text, edited) in enumerate(edits)
    ]
    write_rows(Path("edits.jsonl"), rows)
    assert run("report --agreement demetr:edits.jsonl -m chrf -o page.html -q")[0] == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert re.findall("<caption><span>(.*)</span>", page) == ["accuracy"]
    assert re.findall('alt="([^"]*)"', page) == ["scatter of edits.jsonl"]


def test_pictures_of_the_documentation_are_small_and_drawn_by_this_package() -> None:
    page = (DOCS / "agreement.md").read_text(encoding="utf-8")
    names = re.findall(r"!\[[^]]+\]\(([^)]+)\)", page)
    assert names == [f"pictures/{name}" for name in ("tradeoff.svg", "wmt23-scatter.png", "wmt23-spa.svg")]
    screenshots = "pictures/demo.png", "pictures/report.png"  # see check_screenshot
    pages = [(DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("score-files", "compare-and-publish")]
    assert all(f"({name})" in page for name, page in zip(screenshots, pages, strict=True))
    alignment = "pictures/alignment.svg"
    assert f"({alignment})" in pages[0]
    assert sorted(DOCS.joinpath("pictures").iterdir()) == sorted(
        DOCS / name for name in (*names, *screenshots, alignment)
    )
    for name in (*names[1:], alignment):
        content = (DOCS / name).read_bytes()
        made = b"Software\0twmd-registry " if name.endswith(".png") else b">twmd-registry "
        assert made in content
        assert len(content) < LARGEST_PICTURE
