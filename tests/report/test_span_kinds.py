"""Error spans in reports and pictures: their kinds, and how systems differ in them."""

from __future__ import annotations

import html
import re

import pytest

import twmd_registry
from twmd_registry.engine.error_spans import ErrorSpan
from twmd_registry.report.alignment_picture import heat_maps
from twmd_registry.report.span_kinds import compare_spans, kind_of

REFERENCES = ["It rained all day in the old town.", "We met Anna in 1998 near the river."]
FIRST = ["It rained all night in the old town.", "We met Otto in 2004 near the river."]
SECOND = ["It rained all day in the old town.", "We met Anna in 2004 near the river."]


@pytest.mark.parametrize(
    ("marked", "kind"),
    [("2004", "number"), ("!", "punctuation"), ("Otto", "capitalised word"), ("We", "other word"), ("near", "other word")],
)  # fmt: skip
def test_kind_of_a_span_is_told_by_its_characters(marked: str, kind: str) -> None:
    text = "We met Otto in 2004 near here!"
    start = text.index(marked)
    assert kind_of(text, ErrorSpan(start, start + len(marked), "minor")) == kind
    assert kind_of(text, ErrorSpan(15, 29, "minor")) == "number"
    assert kind_of("we met him near here", ErrorSpan(3, 20, "minor")) == "phrase"


def test_errors_of_the_first_system_that_another_does_not_make_are_gone() -> None:
    with twmd_registry.scorer("twmd") as twmd, twmd_registry.scorer("sbert") as other:
        scores = [[other.score(own, REFERENCES), twmd.score(own, REFERENCES)] for own in (FIRST, SECOND)]
        compared = compare_spans(scores)
        assert compared
        cells = dict(compared["rows"])
        assert cells["other word"] == ["1", "0\n1 gone, 0 new"]
        assert cells["capitalised word"] == ["1", "0\n1 gone, 0 new"]
        assert int(cells["all"][0]) > int(cells["all"][1].partition("\n")[0])
        assert compared["by"].startswith("twmd|")
        assert compare_spans([scores[0][:1]]) is None


def test_spans_are_marked_in_the_texts_of_a_page() -> None:
    alignment = twmd_registry.score([f"<b>{FIRST[0]}\u202e"], [REFERENCES[0]]).explain(0)
    page, text = heat_maps(alignment), alignment.texts[0]
    assert re.findall('class="marked">(.*?):', page) == ["hypothesis", "reference"]
    assert "error span, badness 0." in page
    assert ">night</span>" in page
    (shown,) = re.findall('<p class="marked">hypothesis: <span dir="auto">(.*?)</span></p>', page)
    assert html.unescape(re.sub("<[^>]*>", "", shown)) == text.replace("\u202e", "\\u202e")
