"""The page's answers: choices, scores of two texts and of tables, and explained signatures."""

from __future__ import annotations

import csv
import gzip
import io
import json
import statistics
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
import pytest

import twmd_registry
from tests.conftest import Run
from twmd_registry.demo import answers, page
from twmd_registry.demo.answers import (
    FILE_HEADERS,
    HEADERS,
    LARGEST,
    LONGEST,
    MAX_ROWS,
    MAX_TOKENS,
    METRICS,
    NOTHING,
    explain_signature,
    offered_presets,
    read_link,
    read_pasted,
    read_upload,
    score_file,
    score_texts,
    spec_of,
)
from twmd_registry.errors import FileError, InputError, SpecError
from twmd_registry.record.content import parse_record
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.names import EMBEDDED_MODEL, MULTILINGUAL_MODEL
from twmd_registry.registry.spec import make_spec


def test_offered_presets_need_packaged_models_only_and_name_their_languages() -> None:
    offered = offered_presets()
    labels = {"embedded (en)", "multilingual (93 languages)", "wmd (en)", "paper"}
    assert labels <= {*offered.values()}
    assert {label.partition(" ")[0] for label in labels} <= {*offered}
    assert {"roberta-large", "regression", "roberta-base-stsb"}.isdisjoint(offered)
    specs = [spec_of(metric, preset) for metric in METRICS for preset in offered]
    assert {spec.model for spec in specs if spec.metric != "ensemble"} == {EMBEDDED_MODEL, MULTILINGUAL_MODEL}


def test_multilingual_preset_is_not_offered_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "has_multilingual", lambda: False)
    offered_presets.cache_clear()
    assert {"multilingual", "multilingual-tuned"}.isdisjoint(offered_presets())
    offered_presets.cache_clear()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "nosuch"}, "preset='nosuch' is not offered here; .*embedded-tuned"),
        ({"iterations": "1000000"}, "iterations='1000000' is not offered here"),
        ({"temperature": 1e-6}, "temperature=1e-06 is not offered here"),
        ({"temperature": float("nan")}, "temperature=nan is not offered here"),
        ({"centering": "background:/a/file"}, "centering='background:/a/file' is not offered here"),
    ],
)
def test_values_beyond_the_choices_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        spec_of("twmd", **settings)
    with pytest.raises(SpecError, match="unknown metric 'bleu'"):
        spec_of("bleu")


HYPOTHESIS = "A small boat drifts past the lighthouse."
LINES = ["The boat passes a lighthouse.", "A cow sleeps."]
REFERENCES = "\n\n ".join(LINES) + "\n"


def test_every_metrics_scores_equal_its_scorers() -> None:
    rows, _, signature, notices = score_texts(HYPOTHESIS, REFERENCES, "twmd")
    assert [row[0] for row in rows] == list(METRICS)
    for row in rows:
        whole = twmd_registry.load(row[0]).score([HYPOTHESIS], [LINES]).as_dict()
        expected = [whole.get(name) for name in (row[0], "precision", "recall", "f1")]
        assert len(row) == len(HEADERS)
        for text, number in zip(row[1:], expected, strict=True):
            assert text == NOTHING if number is None else abs(float(text) - number) <= 0.5e-4 + 1e-6
    assert signature == str(twmd_registry.load("twmd").score([HYPOTHESIS], [LINES]).signature)
    assert notices == []


def test_link_keeps_offered_values() -> None:
    values = ["h", "r", "", False, *("twmd", "embedded", 0, "preset", "preset") * 2]
    link = {"compare": "true", "centering": "batch", "metric2": "bleu", "preset": "nosuch", "temperature": "x"}
    read, problems = read_link(link, values)
    assert read == [*values[:3], True, *values[4:8], "batch", *values[9:]]
    assert len(problems) == 3
    assert all(name in " ".join(problems) for name in ("metric2", "preset", "temperature"))


def test_plan_shows_the_reference_with_the_highest_score_as_text() -> None:
    _, picture, _, _ = score_texts("<b> A small boat", "The boat <img src=x>.\nA cow sleeps.", "twmd")
    assert "boat" in picture
    assert "cow" not in picture
    assert "<img" not in picture
    assert "&lt;" in picture


def test_long_texts_are_cut_with_a_notice() -> None:
    long = "word " * LONGEST
    *result, notices = score_texts(long, long, "twmd")
    assert notices[:2] == [
        f"hypothesis cut to the first 2,000 of {5 * LONGEST:,} characters: score longer texts in a file.",
        f"references cut to the first 2,000 of {5 * LONGEST:,} characters: score longer texts in a file.",
    ]
    assert result == list(score_texts(long[:LONGEST], long[:LONGEST], "twmd")[:3])
    assert f"pictures show at most {MAX_TOKENS} per side" in result[1]


def test_impossible_setting_is_an_error_for_the_chosen_metric_and_a_notice_for_others() -> None:
    rows, _, _, notices = score_texts(HYPOTHESIS, REFERENCES, "twmd", centering="sentence")
    assert {row[0]: row[1] for row in rows}["sbert"] == NOTHING
    assert any(notice.startswith("sbert: centering=sentence") for notice in notices)
    with pytest.raises(SpecError, match="centering=sentence"):
        score_texts(HYPOTHESIS, REFERENCES, "sbert", centering="sentence")


def test_warnings_and_missing_presets_are_notices() -> None:
    *_, notices = score_texts(HYPOTHESIS, REFERENCES, "twmd", preset="paper")
    assert any(notice.startswith("centering=batch: a segment is alone") for notice in notices)
    assert "no preset 'paper' for stsscore, ensemble: scored with 'embedded'." in notices


@pytest.mark.parametrize(("hypothesis", "references"), [("a", "the cat"), (None, ["a"]), ("a", None)])
def test_call_with_texts_of_another_type_is_refused(hypothesis: Any, references: Any) -> None:
    with pytest.raises(gr.Error, match="expected a text as hypothesis and a list of texts as references"):
        page.score_texts(hypothesis, references)


def test_preset_that_compares_with_the_source_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    against = twmd_registry.load("twmd", against="source").requested
    monkeypatch.setattr(
        "twmd_registry.demo.answers.spec_of", lambda name, _preset: against if name == "twmd" else make_spec(name)
    )
    with pytest.raises(InputError, match="write the source too"):
        score_texts(HYPOTHESIS, REFERENCES, "twmd")
    rows, _, _, notices = score_texts(HYPOTHESIS, REFERENCES, "sbert")
    assert {row[0]: row[1] for row in rows}["twmd"] == NOTHING
    assert "twmd was not scored: it compares the hypothesis with its source." in notices
    rows, _, signature, _ = score_texts(HYPOTHESIS, REFERENCES, "twmd", "A ship at sea")
    wanted = twmd_registry.score([HYPOTHESIS], sources=["A ship at sea"], against="source")
    assert rows[0][1] == f"{wanted.score:.4f}"
    assert "|against:source|" in signature
    rows, picture, again, notices = score_texts(HYPOTHESIS, "", "twmd", "A ship at sea")
    assert (rows[0][1], again) == (f"{wanted.score:.4f}", signature)
    assert "given to the source" in picture
    assert "sbert was not scored: it compares the hypothesis with its reference." in notices
    with pytest.raises(InputError, match="sbert compares the hypothesis with its reference"):
        score_texts(HYPOTHESIS, " ", "sbert", "A ship at sea")


CSV = (
    'prediction,reference,reference_2\nIt rains.,It is raining.,\n"A cat, a dog",Two pets.,"A dog, a cat"\n'
    "So be it,Never,Ever\n"
)
HEADER = b"prediction,reference\n"
MISSPELT = ", row 1 (the header): no column 'reference'; did you mean 'refrence'? Choices: prediction, refrence."
PREDICTIONS = ["It rains.", "A cat, a dog", "So be it"]
LISTS = [["It is raining."], ["Two pets.", "A dog, a cat"], ["Never", "Ever"]]


def as_json(predictions: list[str], references: list[list[str]]) -> str:
    return "".join(
        json.dumps({"prediction": p, "references": r}) + "\n" for p, r in zip(predictions, references, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "separator"), [("a.CSV", ""), ("semicolons.csv", ";"), ("a.tsv", "\t"), ("a.jsonl", ""), ("a.ndjson", "")]
)
def test_every_format_has_the_same_texts(name: str, separator: str, tmp_path: Path) -> None:
    text = as_json(PREDICTIONS, LISTS) if "json" in name else CSV
    if separator:
        text = "\n".join(separator.join(fields) for fields in csv.reader(io.StringIO(CSV))) + "\n"
    (tmp_path / name).write_text(text, encoding="utf-8")
    source, _, *texts = read_upload(tmp_path / name)
    assert (source.name, texts) == (name, [PREDICTIONS, LISTS, None])
    first = 2 if "json" in name else 3  # the blank line counts, and a header
    assert read_pasted(f"\n{text}\n\n")[1:4] == ([*range(first, first + 3)], PREDICTIONS, LISTS)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"prediction,refrence\na,b\n", MISSPELT),
        (HEADER, ": no rows below the header."),
        (b"", " is empty."),
        (
            gzip.compress(HEADER, mtime=0),
            " is compressed: add the suffix .gz, or unpack it.",
        ),
        (HEADER + b"a,b\n" * (MAX_ROWS + 1), " has 2,001 rows: this page scores up to 2,000"),
        (b"x" * (LARGEST + 1), " has more than 2,000,000 bytes: 'twmd score' reads files of any size."),
    ],
)
def test_bad_file_is_refused_in_one_line_without_its_folder(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_upload(tmp_path / "a.csv")
    assert str(caught.value).startswith(f"a.csv{words}")
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


@pytest.fixture(scope="module")
def scored() -> dict[str, Any]:
    return score_file(read_pasted(CSV), ["twmd", "stsscore"], "embedded")


def test_scores_equal_the_scorers(scored: dict[str, Any]) -> None:
    for k, metric in enumerate(("twmd", "stsscore")):
        expected = twmd_registry.load(metric, "embedded").score(PREDICTIONS, LISTS)
        row = dict(zip(FILE_HEADERS, scored["rows"][k], strict=True))
        numbers = [what(expected.scores) for what in (min, statistics.median, max, statistics.fmean)]
        shown = [float(row[name]) for name in ("lowest", "median", "highest", "score")]
        assert np.allclose(shown, numbers, atol=0.6e-4)
        assert (row["R"] == NOTHING) is (metric == "stsscore")
        assert np.allclose([segment[3 + k] for segment in scored["segments"]], expected.scores, atol=0.6e-4)
        tsv = [line.split("\t")[k] for line in scored["tsv"].splitlines()[1:]]
        assert np.allclose(np.array(tsv, dtype=float), expected.scores, atol=0.6e-6)
        assert scored["signatures"].split("\n")[k] == str(expected.signature)
    assert scored["segment_headers"] == ["row", "prediction", "references", "twmd", "stsscore"]
    assert scored["segments"][1][:3] == [3, "A cat, a dog", "Two pets. / A dog, a cat"]
    assert scored["pictures"].count("<figure>") == scored["pictures"].count("<svg") == 2
    assert "stsscore: rows by score" in scored["pictures"]


def test_record_verifies(scored: dict[str, Any]) -> None:
    assert twmd_registry.verify_record(parse_record(scored["record"]), [(PREDICTIONS, LISTS)]).agrees
    edited = [*PREDICTIONS[:2], "Never"]
    assert not twmd_registry.verify_record(parse_record(scored["record"]), [(edited, LISTS)]).agrees


def test_request_without_texts_or_metric_is_refused() -> None:
    for text in ("", " \n\n"):
        with pytest.raises(FileError, match="^nothing to score: upload or paste a table with the columns prediction"):
            read_pasted(text)
    for texts in ((" \n", "a"), ("a", " \n \n")):
        with pytest.raises(InputError, match="write a hypothesis and at least one reference"):
            score_texts(*texts, "twmd")
    with pytest.raises(SpecError, match="choose at least one metric"):
        score_file(read_pasted(CSV), [], "embedded")


def test_slow_file_is_stopped_and_the_next_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(answers, "PATIENCE_S", 0.0)
        with pytest.raises(InputError, match="took more than 0 s and was stopped: try a smaller file"):
            score_file(read_pasted(CSV), ["sbert"], "embedded")
    assert score_file(read_pasted(CSV), ["sbert"], "embedded")["segment_headers"][-1] == "sbert"


def explained(text: str) -> tuple[dict[str, str], ...]:
    """Return the values, the meanings and the defaults of a signature by field."""
    fields, _, _ = explain_signature(text)
    return tuple({field[0]: field[k] for field in fields} for k in (1, 2, 3))


@pytest.mark.parametrize("metric", ["twmd", "moverscore"])
def test_keys_of_a_default_preset_are_explained_as_defaults(metric: str) -> None:
    with twmd_registry.load(metric) as scorer:
        fields, _, notices = explain_signature(scorer.signature)
        values = scorer.spec.values()
    assert notices == []
    by_key = {name: rest for name, *rest in fields}
    for name, value in values.items():
        if name != "members":
            assert by_key[name] == [KEYS[name].format(value), KEYS[name].about, "yes"]
    assert by_key["metric"][0] == metric
    assert by_key["version"][0] == twmd_registry.__version__


def test_other_values_show_the_default() -> None:
    with twmd_registry.load("moverscore", transform="linear", ngram=2, layer=5) as scorer:
        values, _, defaults = explained(scorer.signature)
    assert (values["layer"], defaults["layer"]) == ("5", "no, 4-5")
    # Omitted from the signature, because they have no effect, but different from the default.
    assert (values["transform"], defaults["transform"]) == ("linear", "no, inverse")
    assert (values["ngram"], defaults["ngram"]) == ("2", "no, 1")


def test_ensemble_has_its_members_explained() -> None:
    with twmd_registry.load("ensemble(sbert,2*twmd;temperature=0.03)") as scorer:
        values, meanings, defaults = explained(scorer.signature)
    assert (values["1"], values["2"]) == ("sbert", "twmd")
    assert meanings["2"].endswith("Its weight: 2.")
    assert (values["2. temperature"], defaults["2. temperature"]) == ("0.03", "no, 0.1")
    assert "1. temperature" not in values


def test_command_reproduces_the_score_of_the_signature(folder: Path, run: Run) -> None:
    for name in ("REF.txt", "HYP.txt"):
        (folder / name).write_text(f"It rains on {name[:3]}.\n", encoding="utf-8")
    with twmd_registry.load("ensemble(sbert,twmd)") as scorer:
        expected = scorer.score(["It rains on HYP."], ["It rains on REF."])
        _, command, _ = explain_signature(str(expected.signature))
    out = run(command.removeprefix("twmd "))[1]
    assert str(expected.signature) in out
    assert f"{expected.score:.4f}" in out
