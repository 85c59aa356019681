"""Reports of made-up texts and scores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np

from twmd_registry.comparison.cells import MetricColumn, Resampling, SystemScore
from twmd_registry.comparison.verdict import SystemComparison
from twmd_registry.engine.alignment import Alignment
from twmd_registry.engine.result import Counts
from twmd_registry.record.content import Record, RecordedSystem
from twmd_registry.registry.metric_spec import AppliedSpec
from twmd_registry.registry.signature import Signature
from twmd_registry.registry.spec import make_spec
from twmd_registry.report.html_report import report_page
from twmd_registry.report.segments import choose_highlights

CREATED = "2026-01-02T03:04:05+00:00"
NASTY = (
    "</script><script>window.ran = 1</script>",
    '<img src=x onerror="window.ran = 2">',
    "<!-- <script>",
    "right \u202e to left \u2066 and back",
    "a\x00b\x1b[31m",
    "tab\there",
    "&lt;b&gt; &amp; 'quotes' \"too\"",
    "line\u2028separator",
    "我们 🙂 שלום",
    "${title} $$ $data",
    "javascript:window.ran=3",
    "",
)
"""Texts that would break a page which takes them for markup, script or template."""


class Page(HTMLParser):
    """Splits a page into script elements, addresses, titles and texts as a browser does; every element is closed."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.scripts: dict[str, str] = {}
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.titles: list[str] = []
        self.texts: list[str] = []
        self.policy = self._script = ""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == []
        self.text = "".join(f"{text}\n" for text in self.texts)
        self.lines = [line.strip() for line in self.text.split("\n") if line.strip()]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.addresses += [known[name] for name in ("src", "href", "action", "data", "srcset") if name in known]
        self.titles += [known["title"]] if "title" in known else []
        assert not [name for name in known if name.startswith("on")]
        if known.get("http-equiv") == "Content-Security-Policy":
            self.policy = known["content"]
        if tag == "script":
            self._script = known.get("id", "script")
            self.scripts[self._script] = ""
        if tag not in {"meta", "br", "wbr", "input", "link", "img"}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self._script = ""

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[self._script] += data
        else:
            self.texts.append(data)

    @property
    def data(self) -> Any:
        return json.loads(self.scripts["data"])


def aligned(hypothesis: tuple[str, ...], reference: tuple[str, ...], metric: str = "twmd", **keys: str) -> Alignment:
    """Align random unit vectors by a softmax on both sides; for wordset_cka with negative weights."""
    random = np.random.default_rng(len(hypothesis) * 1000 + len(reference))
    x, y = (random.normal(size=(len(tokens), 4)) + 0.4 for tokens in (hypothesis, reference))
    s = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (y / np.linalg.norm(y, axis=1, keepdims=True)).T
    shares = np.full(len(x), 1 / max(len(x), 1)), np.full(len(y), 1 / max(len(y), 1))
    weights = np.exp(s / 0.1)
    plans = {"precision": shares[0][:, None] * weights / weights.sum(1, keepdims=True)}
    plans["recall"] = shares[1] * weights / weights.sum(0)
    if metric == "wordset_cka":
        plans = {"score": (s - 0.4) / s.size}
    signature = Signature(AppliedSpec.of(make_spec(metric, None, **keys)), nrefs=1)
    return Alignment(signature, 0.812345, hypothesis, reference, *shares, s, plans)


def column(name: str, scores: np.ndarray, *, hundred: bool = False, errors: bool = False) -> MetricColumn:
    """Make a metric with an interval and a test of its scores; shape (systems, segments)."""
    counts = {} if hundred else Counts(scores.shape[1], 1, 2, 3, 4, 0, 0, {"Latin": 9}).as_dict()
    drawn = np.random.default_rng(5).integers(scores.shape[1], size=(200, scores.shape[1]))
    cells = [
        SystemScore(
            float(own.mean()),
            {},
            tuple(own.tolist()),
            counts,
            float(own.mean()),
            float(own.std() / 10),
            None if i == 0 else 0.01 * i,
            tuple(own[drawn].mean(axis=1).tolist()),
        )
        for i, own in enumerate(scores)
    ]
    return MetricColumn(name, f"{name}|version:0", hundred, tuple(cells), errors)


def comparison(systems: Sequence[str], segments: int, seed: int = 0) -> SystemComparison:
    """Make three metrics that agree more or less: two of ours, and TER, which counts errors up to 100."""
    random = np.random.default_rng(seed)
    quality = random.uniform(size=(len(systems), segments))
    columns = (
        column("twmd", 0.4 + 0.5 * quality),
        column("moverscore", 0.5 + 0.3 * quality + 0.1 * random.uniform(size=quality.shape)),
        column("TER", 100 * (1 - quality) + 20 * random.uniform(size=quality.shape), hundred=True, errors=True),
    )
    return SystemComparison(tuple(systems), columns, Resampling("bs", 1000, seed=7) if len(systems) > 1 else None)


def report(
    systems: Sequence[str], references: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]], size: int = 30
) -> dict[str, Any]:
    """Make the arguments of `report_page` from random scores; every picture has `size` tokens a side."""
    table = comparison(systems, len(references))
    tokens = tuple(f"word{i}" for i in range(size))
    highlights = [
        (one, {system: aligned((f"<i>{one[0]}", *tokens), tokens) for system in one[1]})
        for one in choose_highlights(table, 20)
    ]
    results = tuple(
        SystemScore(one.cells[0].score, {}, one.cells[0].scores, {}, signature=one.signature)
        for one in table.columns
        if one.cells[0].counts
    )
    recorded = tuple(RecordedSystem(name, "", results) for name in systems)
    record = Record(CREATED, (), recorded, {"torch": "0"}, 1.5)
    texts = {"predictions": predictions, "references": references}
    return texts | {"comparison": table, "highlights": highlights, "record": record}


def page_of(table: SystemComparison, references: Sequence[Sequence[str]] | None = None) -> str:
    """Write the page of a comparison without highlights and with an empty record."""
    texts = references or [["text"]] * len(table.columns[0].cells[0].scores)
    predictions = [["text"] * len(texts)] * len(table.systems)
    return report_page(table, predictions, texts, [], Record(CREATED, (), (), {}, 1.5))


def nasty_report() -> dict[str, Any]:
    """Make a report of texts and names that could be taken for markup; twice as many as fit on a page."""
    texts = [f"{text} {i}" if text else text for i, text in enumerate(NASTY * 5)]
    made = report(
        ["good <b>.txt", "</script>poor\u202e\udcff.txt"],
        [[text, text[::-1]] for text in texts],
        [texts, texts[::-1]],
        size=6,
    )
    return made | {"sources": [f"source {text}" for text in texts]}
