"""The page's choices and answers: scores of two texts or of a table, and the explanation of a signature."""

from __future__ import annotations

import functools
import re
import shlex
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from twmd_registry.comparison.cells import column_of
from twmd_registry.comparison.tables import sentence_lines
from twmd_registry.comparison.verdict import SystemComparison
from twmd_registry.engine.alignment import heat_map_variables
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer, score_with
from twmd_registry.errors import FileError, InputError, SpecError
from twmd_registry.files.lines import digest_of_file
from twmd_registry.files.tables import USUAL_REFERENCES, TableRow, read_rows
from twmd_registry.messages import collect_warnings, menu, replace_advice
from twmd_registry.models.q4 import has_multilingual
from twmd_registry.record.content import InputFile, make_record, record_text
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import (
    CONVERGED,
    DEFAULT_PRESET,
    EMBEDDED_MODEL,
    MULTILINGUAL_MODEL,
    OUTPUTS,
    CenteringKind,
    MetricName,
)
from twmd_registry.registry.presets import default_preset, presets, presets_of
from twmd_registry.registry.references import is_blank
from twmd_registry.registry.signature import parse_signature
from twmd_registry.registry.spec import make_spec
from twmd_registry.report.alignment_picture import check_drawable
from twmd_registry.report.html_report import histogram
from twmd_registry.template import render

METRICS = tuple(map(str, MetricName))
MULTILINGUAL = "multilingual"
"""The preset of the packaged multilingual model. Names of its other presets start with it."""
MANY = 10
"""Minimum number of languages for a preset's label to count them instead of naming them."""
AS_PRESET = "preset"
"""The choice that keeps the preset's value."""
SWEEPS = (AS_PRESET, "1", "2", "5", "10", CONVERGED)
CENTERINGS = (AS_PRESET, *get_args(CenteringKind))
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.01, 0.5
"""Ends of the temperature slider. The papers use 0.01 to 0.3."""


@functools.cache
def offered_presets() -> dict[str, str]:
    """Return the presets of packaged models, with labels that name their languages."""
    labels: dict[str, str] = {}
    for (metric, name), preset in presets().items():
        if preset_for(metric, name) == name:
            reads = preset.languages if len(preset.languages) < MANY else (f"{len(preset.languages)} languages",)
            labels.setdefault(name, f"{name} ({', '.join(reads)})" if reads else name)
    return labels


def preset_for(metric: str, name: str) -> str:
    """Return a preset's name if the metric has it for a packaged model, otherwise one for the same languages."""
    entry(metric)
    default = default_preset(MetricName(metric), None).name
    if name.startswith(MULTILINGUAL) and not has_multilingual():
        return default
    model, fallback = (MULTILINGUAL_MODEL, MULTILINGUAL) if name.startswith(MULTILINGUAL) else (EMBEDDED_MODEL, default)
    preset = presets_of(MetricName(metric)).get(name)
    of_any_model = preset and preset.model is None and metric != MetricName.STSSCORE
    return name if preset and (preset.model == model or of_any_model) else fallback


def notices_of_preset(metrics: Iterable[str], preset: str) -> list[str]:
    """Return a notice that names the metrics scored with another preset; none if all have this one or the default."""
    if preset == DEFAULT_PRESET:
        return []
    used = {name: preset_for(name, preset) for name in metrics}
    others = [name for name in used if used[name] != preset]
    return [f"no preset {preset!r} for {', '.join(others)}: scored with {used[others[0]]!r}."] if others else []


def spec_of(
    metric: str,
    preset: str = DEFAULT_PRESET,
    temperature: float = 0.0,
    iterations: str = AS_PRESET,
    centering: str = AS_PRESET,
) -> MetricSpec:
    """Return a metric's specification with the settings that it uses; raise SpecError for an unoffered value."""
    offered = (("preset", preset, offered_presets()), ("iterations", iterations, SWEEPS))
    for key, value, choices in (*offered, ("centering", centering, CENTERINGS)):
        if value not in choices:
            raise SpecError(f"{key}={value!r} is not offered here; {menu(value, choices)}.")
    if temperature != 0 and not MIN_TEMPERATURE <= temperature <= MAX_TEMPERATURE:
        expected = f"expected {MIN_TEMPERATURE} to {MAX_TEMPERATURE}, or 0 for the preset's value"
        raise SpecError(f"temperature={temperature} is not offered here: {expected}.")
    keys, preset = entry(metric).keys, preset_for(metric, preset)
    model = presets_of(MetricName(metric))[preset].model
    centered = MetricName.BERTSCORE_CENTERED
    mean = (presets_of(centered).get(preset) or default_preset(centered, model)).keys["centering"]  # of every layer
    values = {
        "model": EMBEDDED_MODEL if model is None else None,
        "temperature": temperature or None,
        "iterations": iterations,
        "centering": str(mean) if centering == "background" else centering,
    }
    changed = {key: value for key, value in values.items() if value not in {None, AS_PRESET} and key in keys}
    return make_spec(metric, preset, **changed)


SETTING = ("metric", "preset", "temperature", "iterations", "centering")
"""The fields of a setting, as in a link. Names of the second setting's fields end in 2."""
LINKED = ("hypothesis", "references", "source", "compare", *SETTING, *(f"{name}2" for name in SETTING))


def read_link(parameters: Mapping[str, str], values: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Return the values of `LINKED` with a link's parameters, and the problems of parameters that are not offered."""
    read, problems = dict(zip(LINKED, values, strict=True)), list[str]()
    for name in (name for name in LINKED if name in parameters):
        text, key = parameters[name], name.rstrip("2")
        try:
            read[name] = float(text) if key == "temperature" else text == "true" if key == "compare" else text
            if key == "metric":
                entry(text)
            elif key in SETTING:
                spec_of(MetricName.TWMD, **{key: read[name]})
        except ValueError as error:  # SpecError is a ValueError
            problem = f"{text!r} is not a number." if not isinstance(error, SpecError) else error
            problems.append(f"The link's {name}: {problem}")
            read[name] = values[LINKED.index(name)]
    return list(read.values()), problems


def advise(message: str) -> str:
    """Replace advice about options and keys in a message by advice for visitors of the page."""

    def offer(match: re.Match[str]) -> str:
        names = [name for name in (match["presets"] or "").split(", ") if name in offered_presets()]
        return f": choose the preset {' or '.join(names)}." if names else ": no preset on this page reads it."

    return replace_advice(_READS.sub(offer, message), _ADVICE)


_READS = re.compile(r": use a model that reads \w+(?: \(preset (?P<presets>[^)]*)\))?, or score anyway with [^.]*\.")
_ADVICE = {
    "; 'twmd align' draws up to 200.": ".",
    "see the preset multilingual-source of twmd.": "choose the preset multilingual-source.",
    "see the preset multilingual (twmd: multilingual-tuned).": "choose the preset multilingual or multilingual-tuned.",
    ", or leave these rows out (score, report: --drop-missing)": ", or leave these rows out",
}
"""Advice for the command line and Python, and its replacement on the page."""


def compare(first: str, second: str) -> tuple[str, str, str]:
    """Return the scores of two settings and their difference, as text."""
    if NOTHING in {first, second}:
        return first, second, NOTHING
    return first, second, f"{float(second) - float(first):+.4f}"


HEADERS = ("metric", "score", "P", "R", "F1")
FILE_HEADERS = (*HEADERS, "lowest", "median", "highest")
"""Corpus score, precision, recall and F1; lowest, median and highest score of the rows."""
FIELD_HEADERS = ("key", "value", "meaning", "default?")
NOTHING = "-"
LONGEST = 2_000
"""Maximum characters per side; longer texts are cut with a notice."""
MAX_TOKENS = 60
"""Maximum tokens per side of a plan that is drawn while a visitor types."""
SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
LARGEST = 2_000_000
"""Maximum bytes of a file."""
MAX_ROWS = 2_000
DIGITS = 6
PATIENCE_S = 600.0
"""Seconds after which scoring a file is abandoned."""
SHOWN = 200
"""Characters of a text to show in the table of rows."""
ABOUT = {
    "nrefs": "references per segment; var if the number varies",
    "bs": "bootstrap resamples of an interval or test",
    "ar": "trials of an approximate randomisation test",
    "seed": "seed of the resampling",
    "version": "version of this package that scored",
}
"""Fields of a signature that are not keys."""


class UploadedTable(NamedTuple):
    """The texts of a table. `file` is for the record, `rows` are row numbers from 1, and `sources` are None if any row
    lacks one.
    """

    file: InputFile
    rows: list[int]
    predictions: list[str]
    references: list[list[str]]
    sources: list[str] | None


class Field(NamedTuple):
    """A row for `FIELD_HEADERS`. `default` is ``yes``, ``no, VALUE``, or empty if the model has no default."""

    key: str
    value: str
    meaning: str
    default: str


def _row(name: str, values: Mapping[str, Any], keys: Sequence[str]) -> tuple[str, ...]:
    """Return a metric's row of a table, with `NOTHING` for keys that it does not have."""
    return name, *(f"{values[key]:.4f}" if key in values else NOTHING for key in keys)


def score_texts(
    hypothesis: str, references: str, metric: str, source: str = "", preset: str = DEFAULT_PRESET, **settings: Any
) -> tuple[list[tuple[str, ...]], str, str, list[str]]:
    """Score a text with every metric, against its references, one per line, or its source.

    Returns a row of `HEADERS` per metric, the plan of `metric` as HTML or why it has none, its signature, and notices.
    """
    entry(metric)
    texts = [line.strip() for line in references[:LONGEST].split("\n") if not is_blank(line)]
    sources = [source[:LONGEST]] if not is_blank(source) else None
    if is_blank(hypothesis[:LONGEST]) or not (texts or sources):
        raise InputError("write a hypothesis and at least one reference (or a source, for presets that read it).")
    notices = [
        f"{name} cut to the first {LONGEST:,} of {len(text):,} characters: score longer texts in a file."
        for name, text in (("hypothesis", hypothesis), ("references", references), ("source", source))
        if len(text) > LONGEST
    ]
    with collect_warnings() as warnings:
        specs = {metric: spec_of(metric, preset, **settings)}
        for name in METRICS:
            try:
                specs.setdefault(name, spec_of(name, preset, **settings))
            except SpecError as error:
                notices.append(f"{name}: {error}")
        for name, spec in list(specs.items()):
            other, other_texts = ("source", sources) if spec.against else ("reference", texts)
            if not other_texts and name == metric:
                raise InputError(f"here {metric} compares the hypothesis with its {other}: write the {other} too.")
            if not other_texts:
                notices.append(f"{name} was not scored: it compares the hypothesis with its {other}.")
                del specs[name]
        scorers = [Scorer(spec) for spec in specs.values()]
        sets = score_with(scorers, [hypothesis[:LONGEST]], [texts] if texts else None, sources)
        by_metric = dict(zip(specs, sets, strict=True))
        picture = _draw_plan(by_metric[metric])
    notices += notices_of_preset(METRICS, preset)
    rows = [_row(name, by_metric[name].as_dict() if name in by_metric else {}, (name, *OUTPUTS)) for name in METRICS]
    return rows, picture, str(by_metric[metric].signature), [*notices, *dict.fromkeys(warnings)]


def _draw_plan(scores: ScoreSet) -> str:
    """Draw the plan of a segment and its best reference as HTML, or explain why there is none."""
    try:
        alignment = scores.explain(0)  # a regression model has no plan; an ensemble's members have their own
        check_drawable(alignment, MAX_TOKENS)
    except (InputError, SpecError) as error:
        return f"<p>{escape(str(error))}</p>"
    variables = heat_map_variables(alignment)
    sides = [render("heat_maps.html", "demo", **variables | {"sides": [side]}) for side in variables["sides"]]
    return render("plan.html", "demo", sides=sides, headings=[side["heading"] for side in variables["sides"]])


def read_upload(path: Path) -> UploadedTable:
    """Read a file of `SUFFIXES` with columns ``prediction`` and ``reference...`` (any such names), or ``source``.

    A cell of JSON lines may be a list of references. If there are several columns, empty cells are dropped.
    """
    return _read_table(path.name, path.read_bytes(), path.suffix.lower())


def read_pasted(text: str) -> UploadedTable:
    """Read a pasted table like `read_upload`. Its first line reveals the format: JSON, tabs or commas."""
    text = text.rstrip("\n") + "\n"
    if is_blank(text):
        raise FileError("nothing to score: upload or paste a table with the columns prediction and reference.")
    first = next(filter(str.strip, text.split("\n")))
    form = ".jsonl" if first.lstrip().startswith("{") else ".tsv" if "\t" in first else ".csv"
    return _read_table(f"pasted{form}", text.encode(), form)


def _read_table(name: str, content: bytes, form: str) -> UploadedTable:
    if len(content) > LARGEST:
        raise FileError(f"{name} has more than {LARGEST:,} bytes: 'twmd score' reads files of any size.")
    # Compressed files are refused, because a small file may unpack to more than fits into memory.
    rows = read_rows(name, content, form)
    if not rows:
        raise FileError(f"{name}: no rows below the header." if content else f"{name} is empty.")
    if len(rows) > MAX_ROWS:
        limit = f"this page scores up to {MAX_ROWS:,}; 'twmd score' scores any number"
        raise FileError(f"{name} has {len(rows):,} rows: {limit}.")
    sources = [text for row in rows if isinstance(text := row.values.get("source"), str)]
    return UploadedTable(
        InputFile("predictions", name, digest_of_file(content)),
        [row.number for row in rows],
        [row.text("prediction") for row in rows],
        [_references(row) for row in rows],
        sources if len(sources) == len(rows) else None,
    )


def _references(row: TableRow) -> list[str]:
    columns = tuple(name for name in row.values if name.startswith("reference"))
    if not columns and isinstance(row.values.get("source"), str):
        return []
    if not columns:
        row.take("reference")  # raises the error of a missing column
    return row.references(() if set(USUAL_REFERENCES) <= set(columns) else columns)


def score_file(table: UploadedTable, metrics: Sequence[str], preset: str) -> dict[str, Any]:
    """Score the rows of a file once with each metric, with the preset if the metric has it.

    Returns ``rows`` (a row of `FILE_HEADERS` per metric), ``pictures`` (HTML), ``segment_headers`` and ``segments``
    (number, shortened texts and scores of every row), ``signatures``, ``tsv``, ``record`` (JSON), and ``notices``.
    Raises SpecError without a metric or for an unknown one, and InputError for texts that cannot be scored, or not
    within `PATIENCE_S`.
    """
    if not metrics:
        raise SpecError("choose at least one metric.")
    started = time.perf_counter()
    file, numbers, predictions, references, sources = table

    def check_time(_done: int) -> None:
        if time.perf_counter() - started > PATIENCE_S:
            limit = f"scoring took more than {PATIENCE_S:g} s and was stopped"
            raise InputError(f"{limit}: try a smaller file, or 'twmd score'.")

    with collect_warnings() as warnings:
        scorers = [Scorer(spec_of(metric, preset)) for metric in dict.fromkeys(metrics)]
        sets = score_with(scorers, predictions, references if any(references) else None, sources, progress=check_time)
    seconds = time.perf_counter() - started
    record = make_record([(file.name, sets)], inputs=[file], references=references, seconds=seconds)
    names = [str(scores.metric) for scores in sets]
    rows, pictures = [], {}
    for name, scores in zip(names, sets, strict=True):
        values = scores.as_dict() | {what.__name__: what(scores.scores) for what in (min, statistics.median, max)}
        rows.append(_row(name, values, (name, *OUTPUTS, "min", "median", "max")))
        pictures[name] = histogram([np.asarray(scores.scores)], f"distribution of {name}", 3)
    shown = [[_shorten(p), _shorten(" / ".join(r))] for p, r in zip(predictions, references, strict=True)]
    return {
        "rows": rows,
        "pictures": render("histograms.html", "demo", pictures=pictures),
        "segment_headers": ["row", "prediction", "references", *names],
        "segments": [
            [number, *shown[i], *(round(scores.scores[i], 4) for scores in sets)] for i, number in enumerate(numbers)
        ],
        "signatures": "\n".join(str(scores.signature) for scores in sets),
        "tsv": sentence_lines(SystemComparison((file.name,), tuple(map(column_of, sets))), DIGITS, header=True) + "\n",
        "record": record_text(record),
        "notices": [*notices_of_preset(names, preset), *dict.fromkeys(warnings)],
    }


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def explain_signature(text: str) -> tuple[list[Field], str, list[str]]:
    """Explain a signature: its fields and omitted keys, the command to score with it, and notices."""
    with collect_warnings() as warnings:
        signature = parse_signature(text)
        spec = signature.spec
        fields = [Field("metric", str(spec.metric), entry(spec.metric).about, "")]
        for number, weighted in enumerate(spec.members, 1):
            weight, member = weighted.weight, weighted.spec
            about = f"{entry(member.metric).about} Its weight: {weight:g}."
            fields.append(Field(str(number), str(member.metric), about, ""))
            fields += [field._replace(key=f"{number}. {field.key}") for field in _explain_keys(member)]
        fields += [] if spec.members else _explain_keys(spec)
    values = {name: getattr(signature, name) for name in ABOUT}
    fields += [Field(name, str(value), ABOUT[name], "") for name, value in values.items() if value is not None]
    return fields, f"twmd score REF.txt -i HYP.txt -m {shlex.quote(str(signature))}", list(dict.fromkeys(warnings))


def _explain_keys(spec: MetricSpec) -> Iterator[Field]:
    values = spec.values()
    other = spec.model if spec.model != EMBEDDED_MODEL else None
    defaults = make_spec(spec.metric, model=other).values() | {"model": EMBEDDED_MODEL}
    for name, key in KEYS.items():
        value, default = values.get(name, key.neutral), defaults.get(name, key.neutral)
        if value is not None and (name in values or name in defaults):
            comparison = "" if default is None else "yes" if value == default else f"no, {key.format(default)}"
            yield Field(name, key.format(value), key.about, comparison)
        if name == "model" and spec.fingerprint:
            about = "first digits of the sha256 of the model's weights, configuration and vocabulary"
            yield Field("content", spec.fingerprint, about, "")
