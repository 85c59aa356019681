"""Pictures of alignments: their content, and errors."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from tests.report.reports import Page, aligned
from twmd_registry.engine.alignment import Alignment, label
from twmd_registry.errors import FileError, InputError, MissingExtraError, SpecError
from twmd_registry.report import alignment_picture
from twmd_registry.report.alignment_picture import (
    MAX_TOKENS,
    SUFFIXES,
    draw,
)

WORDS = (
    "a small boat drifts past the old lighthouse while gulls argue about bread nobody threw into the grey water".split()
)
ODD = ("<script>", "$x$", "&", 'say "so"', "-->", "我们", "🙂", "a\x00b\u202e", " ", "")


def sized(rows: int, columns: int, **keys: str) -> Alignment:
    """Align tokens of ordinary lengths, and a long one on either side."""
    hypothesis = [WORDS[i % len(WORDS)] for i in range(rows - 1)]
    reference = [WORDS[i * 7 % len(WORDS)] for i in range(columns - 1)]
    long = "Donaudampfschifffahrtsgesellschaft", "Rindfleischetikettierungsgesetz"
    return aligned((*hypothesis, long[0]), (*reference, long[1]), **keys)


def texts_of(path: Path) -> list[str]:
    """Return the texts of an SVG or HTML file."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        return Page(source).texts
    return [element.text or "" for element in ET.fromstring(source).iter("{http://www.w3.org/2000/svg}text")]


def test_picture_shows_tokens_score_and_signature(tmp_path: Path) -> None:
    alignment = sized(3, 9)
    for suffix in SUFFIXES:
        draw(alignment, tmp_path / f"picture{suffix}")
    image = imread(tmp_path / "picture.png")
    assert min(image.shape[:2]) > 400
    assert image[..., :3].std() > 0.01
    assert (tmp_path / "picture.pdf").read_bytes().startswith(b"%PDF")
    for suffix in (".svg", ".html"):
        texts = texts_of(tmp_path / f"picture{suffix}")
        assert {*map(label, alignment.hypothesis + alignment.reference), "twmd, F1: 0.8123"} <= set(texts)
        assert sum(text.startswith(("precision", "recall")) for text in texts) == 2
        assert str(alignment.signature) in "".join(texts)


@pytest.mark.parametrize("suffix", [".svg", ".html"])
@pytest.mark.filterwarnings("error")
def test_markup_in_tokens_is_shown_as_text(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"odd{suffix}"
    draw(aligned(ODD, ODD[::-1]), path)
    texts = texts_of(path)
    for token in ("<script>", "$x$", "&", 'say "so"', "-->", "我们", "🙂", r"a\x00b\u202e", "␣", "∅"):
        assert texts.count(token) == 4, token


def test_page_needs_nothing_from_elsewhere_and_explains_every_cell(tmp_path: Path) -> None:
    alignment = aligned(ODD, ("Donaudampfschifffahrtsgesellschaft", *WORDS[:3]))
    draw(alignment, tmp_path / "page.html")
    source = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(source)
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert page.addresses == []
    assert not re.search("https?:|url\\(|@import", source)
    assert "prefers-color-scheme: dark" in source
    amount, cosine = alignment.plans["recall"][0, 0], alignment.similarities[0, 0]
    assert f"<script> → Donaudampfschifffahrtsgesellschaft: {amount:.4g}, cosine {cosine:.4f}" in page.titles
    assert sum(" → " in title for title in page.titles) == 2 * alignment.similarities.size


@pytest.mark.parametrize("suffix", [".svg", ".pdf"])
def test_same_alignment_is_the_same_bytes_in_any_style(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    first, second = tmp_path / f"one{suffix}", tmp_path / f"two{suffix.upper()}"
    draw(sized(2, 3), first)
    with mpl.rc_context({"font.size": 20, "svg.fonttype": "path", "axes.facecolor": "red", "text.parse_math": True}):
        draw(sized(2, 3), second)
        assert mpl.rcParams["font.size"] == 20
        assert mpl.rcParams["svg.fonttype"] == "path"
    assert first.read_bytes() == second.read_bytes()
    assert sorted(tmp_path.iterdir()) == sorted([first, second])


def test_side_of_the_score_and_plan_of_zeros_are_drawn(tmp_path: Path) -> None:
    draw(sized(4, 4, output="recall"), tmp_path / "recall.svg")
    texts = texts_of(tmp_path / "recall.svg")
    assert "twmd, recall: 0.8123" in texts
    assert [text.partition(":")[0] for text in texts if text.startswith(("precision:", "recall:"))] == ["recall"]
    alignment = aligned(("one",), ("two", "three"))
    alignment.plans.update(precision=np.zeros((1, 2)), recall=np.zeros((1, 2)))
    draw(alignment, tmp_path / "nothing.html")
    assert (tmp_path / "nothing.html").stat().st_size > 1000


def test_impossible_picture_is_refused_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError) as caught:
        draw(sized(2, 2), tmp_path / "picture.htm")
    choices = "did you mean '.html'? Choices: .png, .svg, .pdf, .html."
    assert str(caught.value) == f"{tmp_path / 'picture.htm'}: unknown suffix '.htm' for a picture; {choices}"
    with pytest.raises(SpecError, match=r"pictures show at most 200 per side; explain\(i\) returns the data"):
        draw(sized(2, MAX_TOKENS + 1), tmp_path / "many.svg")
    with pytest.raises(InputError, match="the reference has no tokens"):
        draw(aligned(("word",), ()), tmp_path / "none.html")
    with pytest.raises(FileError, match=r"^cannot write .*picture.*: .*\.$"):
        draw(sized(2, 2), Path(__file__) / "picture.html")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"\(.html needs nothing\): pip install .*\[plots\]"):
        draw(sized(2, 2), tmp_path / "picture.png")
    assert list(tmp_path.iterdir()) == []
    draw(sized(2, 2), tmp_path / "picture.html")


def test_missing_characters_trigger_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment_picture, "_installed_fonts", list)
    draw(aligned(("\u732b", "word"), ("word", "cat")), tmp_path / "picture.svg")
    with pytest.warns(UserWarning, match="Glyph 29483 .* missing from font"):
        draw(aligned(("\u732b", "word"), ("word", "cat")), tmp_path / "picture.png")
