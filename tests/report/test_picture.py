"""Pictures of alignments: what is in them, that nothing meets anything, and what happens when something is not
there."""

from __future__ import annotations

import logging
import re
import sys
import warnings
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.text import Text

from twmd_registry.engine.result import Alignment
from twmd_registry.errors import FileError, InputError, MissingExtraError, SpecError, TwmdWarning
from twmd_registry.registry.signature import Signature
from twmd_registry.registry.spec import make_spec
from twmd_registry.report import picture_text
from twmd_registry.report.picture import MOST, draw
from twmd_registry.report.picture_plot import make_figure
from twmd_registry.report.picture_text import LONGEST_LABEL, families, label, lacking

WORDS = "a small boat drifts past the old lighthouse while gulls argue about bread nobody threw into the slow grey water".split()
ODD = ("<script>", "$x$", "&", 'say "so"', "-->", "我们", "🙂", "a\x00b\u202e", " ", "")
SUFFIXES = (".png", ".svg", ".html")
VOID = {"meta", "br"}


def aligned(hypothesis: tuple[str, ...], reference: tuple[str, ...], metric: str = "twmd", **keys: str) -> Alignment:
    """An alignment of random unit vectors by a softmax on both sides; of wordset_cka with negative weights."""
    random = np.random.default_rng(len(hypothesis) * 1000 + len(reference))
    x, y = (random.normal(size=(len(tokens), 4)) + 0.4 for tokens in (hypothesis, reference))
    s = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (y / np.linalg.norm(y, axis=1, keepdims=True)).T
    shares = np.full(len(x), 1 / max(len(x), 1)), np.full(len(y), 1 / max(len(y), 1))
    weights = np.exp(s / 0.1)
    plans = {
        "precision": shares[0][:, None] * weights / weights.sum(1, keepdims=True),
        "recall": shares[1] * weights / weights.sum(0),
    }
    if metric == "wordset_cka":
        plans = {"score": (s - 0.4) / s.size}
    return Alignment(
        Signature(make_spec(metric, None, **keys), nrefs="1"), 0.812345, hypothesis, reference, *shares, s, plans
    )


def sized(rows: int, columns: int, **keys: str) -> Alignment:
    """Tokens of ordinary lengths, and a long one on either side."""
    hypothesis, reference = (
        tuple(WORDS[(i * step) % len(WORDS)] for i in range(count)) for step, count in ((1, rows), (7, columns))
    )
    return aligned(
        (*hypothesis[:-1], "Donaudampfschifffahrtsgesellschaft"),
        (*reference[:-1], "Rindfleischetikettierungsgesetz"),
        **keys,
    )


class Reader(HTMLParser):
    """Collects the text of a page, holding that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.titles: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.titles += [value or "" for name, value in attrs if name == "title"]
        self.links += [name for name, _ in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    assert reader.open == []
    return reader


def svg_texts(path: Path) -> list[str]:
    return [element.text or "" for element in ET.fromstring(path.read_bytes()).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("size", [(1, 1), (5, 5), (80, 80)])
def test_every_format_opens_and_says_tokens_and_score(tmp_path: Path, size: tuple[int, int]) -> None:
    alignment = sized(*size)
    for suffix in SUFFIXES:
        draw(alignment, tmp_path / f"picture{suffix}")
    image = imread(tmp_path / "picture.png")
    assert min(image.shape[:2]) > 400
    assert image[..., :3].std() > 0.01
    written = svg_texts(tmp_path / "picture.svg")
    page = read(tmp_path / "picture.html")
    for token in map(label, alignment.hypothesis + alignment.reference):
        assert token in written
        assert token in page.text
    for texts in (written, page.text.splitlines()):
        assert "twmd, F1: 0.8123" in texts
        assert sum(text.startswith(("precision", "recall")) for text in texts) == 2
    assert str(alignment.signature) in page.text
    assert str(alignment.signature) in "".join(written)


@pytest.mark.parametrize(
    ("size", "metric"),
    [
        *((size, "twmd") for size in [(1, 1), (2, 9), (5, 5), (3, 80), (80, 3), (80, 80)]),
        *((size, "wordset_cka") for size in [(1, 1), (3, 80)]),
    ],
)
def test_no_label_meets_another_or_leaves_the_figure(size: tuple[int, int], metric: str) -> None:
    with mpl.rc_context():
        figure = make_figure(sized(*size, metric=metric), ".png")
        canvas: Any = figure.canvas
        renderer = canvas.get_renderer()
        texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text()]
        boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
        assert min(float(text.get_fontsize()) for text in texts) >= 6
    width, height = figure.bbox.size
    assert [name for name, box in boxes if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height] == []
    met = [
        (a, b)
        for (a, one), (b, two) in combinations(boxes, 2)
        if one.x0 < two.x1 and two.x0 < one.x1 and one.y0 < two.y1 and two.y0 < one.y1
    ]
    assert met == []
    fields = [axes.get_window_extent(renderer) for axes in figure.axes]
    covered = [
        n
        for n, box in boxes
        for f in fields
        if box.x0 < f.x1 - 1 and f.x0 + 1 < box.x1 and box.y0 < f.y1 - 1 and f.y0 + 1 < box.y1
    ]
    assert covered == []


@pytest.mark.parametrize("suffix", [".svg", ".html"])
def test_no_token_is_taken_for_markup(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"odd{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(aligned(ODD, ODD[::-1]), path)
    texts = svg_texts(path) if suffix == ".svg" else read(path).text.splitlines()
    for token in ("<script>", "$x$", "&", 'say "so"', "-->", "我们", "🙂", r"a\x00b\u202e", "␣", "∅"):
        assert texts.count(token) == 4, token


def test_a_page_needs_nothing_from_elsewhere_and_explains_every_cell(tmp_path: Path) -> None:
    alignment = aligned(ODD, ("Donaudampfschifffahrtsgesellschaft", *WORDS[:3]))
    draw(alignment, tmp_path / "page.html")
    page, source = read(tmp_path / "page.html"), (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert page.links == []
    assert not re.search("https?:|url\\(|@import", source)
    assert "prefers-color-scheme: dark" in source
    assert source.count("position: sticky") == 1
    first = (
        f"<script> → Donaudampfschifffahrtsgesellschaft: {alignment.plans['recall'][0, 0]:.4g}, cosine "
        f"{alignment.similarities[0, 0]:.4f}"
    )
    assert first in page.titles
    assert sum(" → " in title for title in page.titles) == 2 * alignment.similarities.size


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_alignment_gives_the_same_bytes_whatever_the_user_has_set(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    draw(sized(4, 6), first)
    with mpl.rc_context({"font.size": 20, "svg.fonttype": "path", "axes.facecolor": "red", "text.parse_math": True}):
        draw(sized(4, 6), second)
        assert mpl.rcParams["font.size"] == 20
        assert mpl.rcParams["svg.fonttype"] == "path"
    assert first.read_bytes() == second.read_bytes()
    assert sorted(tmp_path.iterdir()) == sorted([first, second])


def test_pyplot_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    draw(sized(3, 3), tmp_path / "picture.png")
    draw(sized(3, 3), tmp_path / "picture.SVG")
    assert len(list(tmp_path.iterdir())) == 2


def test_one_side_is_drawn_when_the_score_is_one_side(tmp_path: Path) -> None:
    draw(sized(4, 4, output="recall"), tmp_path / "recall.svg")
    texts = svg_texts(tmp_path / "recall.svg")
    assert "twmd, recall: 0.8123" in texts
    assert [text.partition(":")[0] for text in texts if text.startswith(("precision:", "recall:"))] == ["recall"]


def test_negative_amounts_have_their_own_colours_and_a_dash(tmp_path: Path) -> None:
    alignment = sized(5, 20, metric="wordset_cka")
    assert (alignment.plans["score"] < 0).any()
    for suffix in SUFFIXES:
        draw(alignment, tmp_path / f"negative{suffix}")
    assert any("(dash: negative)" in text for text in svg_texts(tmp_path / "negative.svg"))
    source = (tmp_path / "negative.html").read_text(encoding="utf-8")
    assert len(re.findall(r'<td class="n[ "]', source)) == (alignment.plans["score"] < 0).sum()
    with mpl.rc_context():
        (image,) = (
            image
            for axes in make_figure(alignment, ".png").axes
            for image in axes.images
            if image.get_size() == (5, 20)
        )
    (low, high), most = image.get_clim(), np.abs(alignment.plans["score"]).max()
    assert image.get_cmap().name == "RdBu"
    assert (low, high) == (-most, most)


def test_a_plan_of_nothing_is_drawn(tmp_path: Path) -> None:
    alignment = aligned(("one",), ("two", "three"))
    alignment.plans.update(precision=np.zeros((1, 2)), recall=np.zeros((1, 2)))
    for suffix in SUFFIXES:
        draw(alignment, tmp_path / f"nothing{suffix}")
        assert (tmp_path / f"nothing{suffix}").stat().st_size > 1000


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("picture.pdf", "unknown suffix '.pdf' for a picture; Choices: .png, .svg, .html."),
        ("picture.htm", "unknown suffix '.htm' for a picture; did you mean '.html'? Choices: .png, .svg, .html."),
        ("picture", "unknown suffix '' for a picture; Choices: .png, .svg, .html."),
        (".png", "unknown suffix '' for a picture; Choices: .png, .svg, .html."),
    ],
)
def test_another_suffix_is_refused_with_the_three(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        draw(sized(2, 2), tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: {said}"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_too_many_and_too_few_tokens_are_refused(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(SpecError, match=r"at most 200 tokens a side can be drawn; explain\(i\) gives the data"):
        draw(sized(2, MOST + 1), tmp_path / f"many{suffix}")
    with pytest.raises(InputError, match="the reference has no tokens"):
        draw(aligned(("word",), ()), tmp_path / f"none{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_cannot_be_written_is_one_clear_line(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"^cannot write .*picture.*: .*\.$"):
        draw(sized(2, 2), tmp_path / "file" / f"picture{suffix}")


def test_without_matplotlib_there_is_html(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for suffix in (".png", ".svg"):
        with pytest.raises(MissingExtraError, match=r"pip install 'twmd-registry\[plots\]'"):
            draw(sized(2, 2), tmp_path / f"picture{suffix}")
    draw(sized(2, 2), tmp_path / "picture.html")
    assert [path.name for path in tmp_path.iterdir()] == ["picture.html"]


def test_characters_without_a_font_are_warned_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(picture_text, "_installed", list)
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING):
        warnings.simplefilter("always")
        draw(aligned(("我们", "word", "👩\u200d🌾"), ("word", "我", "\u2764\ufe0f")), tmp_path / "picture.png")
    (warning,) = caught
    assert warning.category is TwmdWarning
    assert Path(warning.filename) == Path(__file__)
    assert "no installed font has 4 of these characters (CJK ideographs: 们我; emoji: 🌾👩)" in str(warning.message)
    assert "install Noto Sans CJK and Noto Emoji, or write .svg or .html, which use the reader's fonts." in str(
        warning.message
    )
    assert caplog.records == []


def test_scripts_are_named_with_the_font_that_has_them() -> None:
    assert "this character (Thai: ก): install Noto Sans Thai, or" in lacking({"ก"})
    assert "(kana: あ; Hangul: 가): install Noto Sans CJK, or" in lacking({"あ", "가"})


def test_a_second_font_is_taken_for_what_the_first_lacks() -> None:
    from matplotlib.font_manager import fontManager

    if "STIXGeneral" not in {entry.name for entry in fontManager.ttflist}:
        pytest.skip("no second font here")
    only = {*map(chr, range(0x1D400, 0x1D7FF))} & picture_text._covered_by("STIXGeneral") - picture_text._covered_by(
        "DejaVu Sans"
    )
    if not only:
        pytest.skip("the second font has nothing that the first lacks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            picture_text, "_installed", lambda: [entry for entry in fontManager.ttflist if entry.name == "STIXGeneral"]
        )
        assert families({"a", *only}) == (["DejaVu Sans", "STIXGeneral"], set())


def test_labels_are_short_and_safe() -> None:
    assert label("word") == "word"
    assert label("x" * LONGEST_LABEL) == "x" * LONGEST_LABEL
    assert label("x" * 25) == "x" * 23 + "…"
    assert label("语" * 13) == "语" * 11 + "…"
    assert label("a\nb\x1b[0m") == r"a\nb\x1b[0m"
    assert label("  ") == "␣␣"
    assert label("") == "∅"
    assert label("نمی\u200cدانم") == "نمی\u200cدانم"  # noqa: RUF001 (Persian)
