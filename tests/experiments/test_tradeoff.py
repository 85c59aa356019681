"""The picture of agreement and pace shows the recorded figures, which equal the documentation's."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from experiments.bench.tradeoff import PICTURE, picture, read_rows


def test_picture_shows_the_recorded_figures_of_the_documentation() -> None:
    rows, drawn = read_rows(), PICTURE.read_text(encoding="utf-8")
    assert drawn == "\n".join(picture(rows)) + "\n"
    assert len(ET.fromstring(drawn).findall(".//{*}circle")) == len(rows) > 10
    assert {row.kind for row in rows} == {"ours", "tuned", "peer"}
    page = (Path(__file__).resolve().parents[2] / "docs/agreement.md").read_text(encoding="utf-8")
    stated = {row.pearson for row in rows if row.source == "docs/agreement.md"}
    assert len(stated) > 6
    assert {number for number in stated if f"{number} ±" not in page} == set()
