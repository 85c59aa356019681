"""Edge cases of texts and settings: one clear error or the documented result, never NaN."""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from inspect import isfunction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import twmd_registry
from tests import tiny
from twmd_registry.comparison.systems import compare_systems
from twmd_registry.engine.pairs import check_segments
from twmd_registry.engine.result import ScoreSet
from twmd_registry.errors import ArgumentError, InputError, SpecError, TwmdError, TwmdWarning
from twmd_registry.models.inference import LOADED
from twmd_registry.plugins import torchmetrics
from twmd_registry.plugins.bert_score import BERTScorer
from twmd_registry.plugins.sacrebleu import TWMD
from twmd_registry.plugins.trl import reward_function
from twmd_registry.registry.names import CENTERINGS, MetricName
from twmd_registry.registry.signature import Signature

UNTYPED: Any = twmd_registry
"""For calls that a type checker would reject."""
ALIGNED = [metric for metric in MetricName if metric not in {MetricName.STSSCORE, MetricName.ENSEMBLE}]
STRANGE = [
    "\u202eright to left שלום",
    "e\u0301\u0308\u0323 combining",
    "日本語のテキスト",
    "🙂🙃",
    "a\x00b",
    "\ufeff",
    "\u200b",
    "ﬁ ligature",
    "x" * 300,
]

WRAPPERS: list[Callable[[list[Any]], Any]] = [
    lambda values: np.array(values, dtype=object),
    lambda values: [np.array(value, dtype=object) for value in values],
    pd.Series,
    lambda values: pd.Series(values, dtype=pd.ArrowDtype(pa.array(values).type)),
    pa.array,
    lambda values: pa.chunked_array([values[:1], values[1:]], pa.array(values).type),
    lambda values: [*map(pa.scalar, values)],
]


def quiet(metric: str, predictions: Any, references: Any, **keys: Any) -> ScoreSet:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TwmdWarning)
        return twmd_registry.load(metric, **keys).score(predictions, references)


@pytest.mark.parametrize("metric", MetricName)
def test_empty_texts_score_as_documented_and_are_counted_in_one_warning(metric: str) -> None:
    keys: dict[str, Any] = {"members": "stsscore,sbert"} if metric == MetricName.ENSEMBLE else {}
    predictions, references = ["", "a cat", " \t\n", "a cat"], [["a cat"], [""], ["\u3000"], ["", "a cat"]]
    with pytest.warns(TwmdWarning, match="texts without a token: 4;") as caught:
        found = twmd_registry.load(metric, **keys).score(predictions, references)
    assert [own.filename for own in caught] == [__file__]  # the line of the user's own code
    assert found.scores[:3] == [0.0, 0.0, 1.0]
    assert found.scores[3] > 0.8
    assert (found.counts.empty, found.counts.repeated) == (4, 4)


@pytest.mark.parametrize(
    ("metric", "keys"),
    [("twmd", {"special": "none"}), ("twmd", {"special": "cls"}), ("twmd", {"special": "all"}), ("stsscore", {})],
)
def test_text_of_dropped_characters_only_is_empty(metric: str, keys: dict[str, str]) -> None:
    found = quiet(metric, ["\x00", "a cat", "\x00"], ["a cat", "\x00", ""], **keys)
    assert found.scores == [0.0, 0.0, 1.0]
    assert found.counts.empty == 4


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
@pytest.mark.parametrize("centering", [None, *CENTERINGS])
def test_strange_texts_and_single_tokens_under_every_centering_score_finite_numbers(centering: str | None) -> None:
    for special in ("none", "all") if centering else [None]:
        keys: dict[str, Any] = {"centering": centering, "special": special} if centering else {}
        unit: dict[str, Any] = {"sbert": {"vectors": "unit"} if centering else {}}
        scorers = [twmd_registry.load(own, **keys, **unit.get(own, {})) for own in (ALIGNED if keys else MetricName)]
        for texts in (STRANGE, ["yes"], ["yes", "no", "yes"]):
            for found in twmd_registry.score_all(scorers, texts, ["no", *texts[1:]]):
                assert all(map(math.isfinite, found.scores)), found.signature


@pytest.mark.parametrize("key", ["centering", "stopwords"])
@pytest.mark.parametrize("metric", ["twmd", "trwmd", "moverscore", "bertscore_centered", "wordset_cka"])
def test_texts_with_nothing_left_are_counted_and_match_only_themselves(metric: str, key: str, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("no\nyes\n", encoding="utf-8")
    keys: dict[str, Any] = {"centering": "sentence"} if key == "centering" else {key: tmp_path / "words.txt"}
    with pytest.warns(TwmdWarning, match="nothing left to compare .*: 2; each scores 1 against itself") as caught:
        found = twmd_registry.load(metric, special="none", ngram=1, **keys).score(
            ["no", "a cat", "no", "no", ""], ["yes", "no", "a dog", "no", "no"]
        )
    assert found.scores == [0.0, 0.0, 0.0, 1.0, 0.0]
    assert len(caught) == 2
    assert found.counts.empty == 1


@pytest.mark.parametrize(
    ("number", "keys", "which"),
    [
        (1, {"centering": "batch"}, "a segment is"),
        (1, {"centering": "corpus"}, "a segment is"),
        (5, {"centering": "batch", "centering_size": 4}, "the last segment is"),
        (5, {"centering": "batch", "centering_size": 1}, "a segment is"),
        (2, {"centering": "batch"}, ""),
        (2, {"centering": "corpus"}, ""),
    ],
)
def test_single_segment_of_a_batch_or_corpus_mean_triggers_a_warning(
    number: int, keys: dict[str, Any], which: str, recwarn: pytest.WarningsRecorder
) -> None:
    texts = [f"line {i}" for i in range(number)]
    twmd_registry.load("twmd", **keys).score(texts, texts)
    expected = f"centering={keys['centering']}: {which} alone in its batch"
    assert [expected in str(one.message) for one in recwarn] == [True] * bool(which)


def test_untuned_layer_is_announced_once(bert: str) -> None:
    scorer = twmd_registry.load("twmd", model=bert)
    with pytest.warns(TwmdWarning, match="^untuned: no settings of") as caught:
        for _ in range(2):
            scorer.score(["a cat", "it ran"], ["the cat", "it sat"])
    assert len(caught) == 1
    assert scorer.spec.layers == (round(tiny.DEPTH * 5 / 6),)


@pytest.mark.parametrize(
    ("predictions", "references", "words"),
    [
        (["a"], ["b", "c"], "there are 1 predictions but 2 references: pass one entry per prediction"),
        (["a", "b"], [["x", "y"]] * 3, "there are 2 predictions but 3 references: references look transposed"),
        ([], [], "predictions and references are empty"),
        ("text", ["a"], "predictions must be a list of texts, one per segment; got str 'text'"),
        (["a", None, "c", math.nan], list("abcd"), r"predictions\[1\] must .* without a text: 3\. .*drop_missing"),
        (["a", 2.5], ["a", "b"], r"predictions\[1\] must be a text; got float 2.5"),
        (["a", "b"], ["a", 3], r"references\[1\] must be a text or a list of texts; got int 3"),
        (["a"], [{"de": "ein", "en": "one"}], r"references\[0\] must be a text or a list of texts; got dict"),
        ({"pred": ["a"]}, ["a"], "predictions must be a list of texts, one per segment; got dict"),
        (["a", "b"], [{"a"}, {"b"}], r"references\[0\] must be a text or a list of texts; got set"),
        (np.array("a cat"), ["a"], "predictions must be a list of texts, one per segment; got str 'a cat'"),
        (pd.DataFrame({"pred": ["a"]}), ["a"], "predictions must be a list of texts, one per segment; got DataFrame"),
        (["a", "b"], [["a"], ["b", 3]], r"references\[1\]\[1\] must be a text; got int"),
        (pa.array(["a", None]), ["a", "b"], r"predictions\[1\] must be a text; got None"),
        (pa.array([b"a"]), ["a"], r"predictions\[0\] must be a text; got bytes"),
        (["a", "b"], [["a"], []], r"references\[1\] is an empty list"),
        (["a", "b"], [["a"], "b"], r"references\[1\] is a text but references\[0\] is a list"),
        (
            ["a", "\udc80b"],
            ["a", "b"],
            r"predictions\[1\] is not valid Unicode: lone surrogate '\\udc80' at character 0",
        ),
    ],
)
def test_rows_that_cannot_be_scored_are_named(predictions: Any, references: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        twmd_registry.load("twmd").score(predictions, references)


def test_batches_may_be_ragged_generators_or_text_enums_and_their_rows_are_counted_on() -> None:
    class Answer(str, Enum):  # noqa: UP042 (a StrEnum would say its value)
        YES = "it is so"

    assert check_segments([Answer.YES], [Answer.YES])[:2] == (["it is so"], [["it is so"]])
    found = check_segments(("a", "b"), (text for text in (["x"], ("y", "z"))))
    assert found[:2] == (["a", "b"], [["x"], ["y", "z"]])
    with pytest.raises(InputError, match=r"references\[12\]\[0\]"):
        check_segments(["a", "b", "c"], [["x"], ["y"], [3]], first_row=10)
    rows = (iter(row) for row in (["a cat", "the cat"], ["it rains"]))
    assert check_segments(iter(["a cat", "it rains"]), rows).references == [["a cat", "the cat"], ["it rains"]]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_texts_may_be_arrays_of_other_libraries(wrap: Callable[[list[Any]], Any]) -> None:
    predictions = ["a cat", "it rains"]
    references: list[list[str | None]] = [["a dog", None], ["it pours", "rain"]]
    expected = predictions, [["a dog"], ["it pours", "rain"]]
    assert check_segments(wrap(predictions), [wrap(texts) for texts in references])[:2] == expected
    assert check_segments(wrap(predictions), wrap(references))[:2] == expected
    found = check_segments(wrap(predictions), wrap(["a dog", None]), wrap(predictions))
    assert found[:2] == (predictions, [["a dog"], [""]])
    assert [*map(type, found.predictions), *map(type, found.sources or ())] == [str] * 4


def test_public_functions_name_the_argument_of_the_wrong_type(tmp_path: Path) -> None:
    scorer = twmd_registry.load("twmd")
    scores = scorer.score(["a cat", "a dog"], ["the cat", "dogs"])
    record = twmd_registry.make_record([("a", [scores])], seconds=1.0)
    texts: dict[str, Any] = {"predictions": ["a"], "references": ["b"], "sources": ["c"], "progress": len}
    file, signature = {"path": tmp_path / "r.json"}, str(scores.signature)
    verified: dict[str, Any] = {"record": record, "systems": [], "inputs": [], "options": None, "local_files": None}
    calls: dict[Callable[..., Any], dict[str, Any]] = {
        twmd_registry.score: {**texts, "metric": "twmd", "preset": None},
        twmd_registry.score_all: {**texts, "scorers": [scorer]},
        twmd_registry.score_over_ranks: {**texts, "scorers": [scorer]},
        twmd_registry.load: {"metric": "twmd", "preset": None, "device": "cpu", "layer": 1},
        twmd_registry.mbr: {"candidates": [["a"]], "metric": "x", "preset": None, "sources": ["b"], "utilities": True},
        twmd_registry.parse_signature: {"text": ""},
        twmd_registry.compare_signatures: {"first": signature, "second": signature},
        twmd_registry.path: {"metric": "twmd"},
        twmd_registry.make_record: {"results": [], "inputs": (), "references": (), "seconds": 1.0, "comparison": None},
        twmd_registry.read_record: file,
        twmd_registry.write_record: {**file, "record": record},
        twmd_registry.verify_record: {**verified, "tolerance": 1.0},
        twmd_registry.save_vectors: {"vectors": "x", "folder": "y"},
        scorer.score: texts,
        scorer.fit_baseline: {"texts": ["a", "b"], "pairs": 1, "seed": 0, "progress": len},
        scorer.combine: {"of_members": [scores]},
        twmd_registry.Scorer: {"spec": scorer.requested, "options": None, "local_files": None, "nrefs": None},
        twmd_registry.Scorer.from_signature: {"signature": signature, "model": "embedded"},
        twmd_registry.AppliedSpec.of: {"spec": scorer.requested},
        scores.explain: {"segment": 0, "reference": 0},
        scores.__getitem__: {"segment": 0},
        scores.by_document: {"documents": ["a", "b"], "resamples": 0, "seed": 0},
        TWMD().sentence_score: {"hypothesis": "a", "references": ["b"]},
        compare_systems: {"systems": {"a": ["b"]}, "references": [["c"]], "metrics": [], "documents": [], "scores": {}},
        BERTScorer: {"lang": "en", **dict.fromkeys(("idf", "all_layers", "rescale_with_baseline"), False)},
        reward_function: {"guard": True, "name": "x", "url": "x", "reference_column": "x"},
        torchmetrics.TWMD: {"as_dict": True},
        TWMD().corpus_score: {"hypotheses": ["a"], "references": [["b"]], "n_bootstrap": 1},
    }
    public = {getattr(twmd_registry, name) for name in twmd_registry.__all__}
    assert {value for value in public if isfunction(value)} - {*calls, twmd_registry.list_metrics} == set()
    trials = [(call, keys, name, wrong) for call, keys in calls.items() for name in keys for wrong in (object(), 0.5j)]
    accepted = []
    for call, keys, name, wrong in trials:
        with suppress(TwmdError):
            call(**{**keys, name: wrong})
            accepted.append((call, name))
    assert accepted == []
    for segment in ("a", 1.0, True):
        with pytest.raises(ArgumentError, match="segment"):
            scores.explain(segment)  # type: ignore[arg-type]
    for tolerance in (math.nan, -1):  # the one would accept any score
        with pytest.raises(InputError, match="tolerance"):
            twmd_registry.verify_record(record, [(["a"], ["b"])], tolerance=tolerance)
    with pytest.raises(InputError, match="references"):  # a flat list would be hashed by its letters
        twmd_registry.make_record([("a", [scores])], references=["the cat", "dogs"], seconds=1.0)
    with pytest.raises(ArgumentError, match="references"):
        TWMD().sentence_score("a cat", "the cat")


EMPTY = (
    "texts without a token: 1; each scores 0 against text and 1 against another empty text, before any baseline "
    "(predictions[0])."
)


def shown_by(action: Any, calls: int) -> list[str]:
    """Return the warnings that a user sees from repeated calls on one line, under one of Python's filters."""
    scorer, shown = twmd_registry.load("twmd"), list[str]()
    with warnings.catch_warnings():
        warnings.resetwarnings()
        if action is not None:
            warnings.simplefilter(action)
        warnings.showwarning = lambda message, *_where, **_how: shown.append(str(message))
        for _ in range(calls):
            scorer.score([""], ["a"])
    return shown


@pytest.mark.parametrize(
    ("action", "times"), [(None, 3), ("default", 3), ("always", 3), ("ignore", 0), ("once", 1), ("module", 1)]
)
def test_warning_is_shown_in_every_call_unless_the_user_filters_it(action: str | None, times: int) -> None:
    assert shown_by(action, 3) == [EMPTY] * times
    for _ in range(2):
        with pytest.raises(TwmdWarning, match="texts without a token: 1"):
            shown_by("error", 1)


def test_warning_points_to_a_user_module_whose_name_begins_with_the_packages() -> None:
    module = {"__name__": "twmd_registry_experiments.run", "scorer": twmd_registry.load("twmd")}
    with pytest.warns(TwmdWarning, match="texts without a token") as caught:
        exec(compile("\nscorer.score([''], ['a'])", "own.py", "exec"), module)
    assert [(warning.filename, warning.lineno) for warning in caught] == [("own.py", 2)]


WRITTEN_FOR = (
    r"the signature of {} was written for nrefs:{}; these texts have nrefs:{}\. More references make scores higher"
)


@pytest.mark.parametrize(
    ("name", "nrefs", "references", "found"),
    [
        ("twmd", 2, [["a"]], "1"),
        ("twmd", "var", [["a"]], "1"),
        ("twmd", 1, [["a", "b"]], "2"),
        ("ensemble(twmd,sbert)", 2, ["b"], "1"),
    ],
)
def test_signature_for_another_number_of_references_is_announced_in_every_call(
    name: str, nrefs: Any, references: Any, found: str
) -> None:
    signature = str(Signature(twmd_registry.load(name).spec, nrefs))
    expected = WRITTEN_FOR.format(name.partition("(")[0], nrefs, found)
    scorer = twmd_registry.load(signature)
    for made in (scorer, scorer, pickle.loads(pickle.dumps(scorer))):
        with pytest.warns(TwmdWarning, match=expected) as caught:
            made.score(["a"], references)
        assert len(caught) == 1
    with pytest.warns(TwmdWarning, match=expected):
        twmd_registry.score(["a"], references, signature)


@pytest.mark.filterwarnings("error")
def test_signature_for_the_same_number_of_references_or_for_none_is_silent() -> None:
    spec = twmd_registry.load("twmd").spec
    cases: list[tuple[Any, Any]] = [(2, [["a", "b"]]), ("var", [["a"], ["b", "c"]]), (None, [["a"]])]
    for nrefs, references in cases:
        found = twmd_registry.load(Signature(spec, nrefs)).score(["a"] * len(references), references)
        assert found.signature.nrefs == (nrefs or 1)


def test_score_function_equals_a_scorer_and_keeps_the_model() -> None:
    expected = twmd_registry.load("twmd", layer=3).score(["a cat"], ["the cat"])
    assert twmd_registry.score(["a cat"], ["the cat"], layer=3) == expected
    assert twmd_registry.score(["a cat"], ["the cat"], "sbert", device="cpu") == twmd_registry.load("sbert").score(
        ["a cat"], ["the cat"]
    )
    assert twmd_registry.score(["a cat"], ["the cat"], metric=expected.signature) == expected
    twmd_registry.score(["a cat"], ["the cat"], "twmd", dtype="bfloat16")
    before = tuple(LOADED)
    twmd_registry.score(["a dog"], ["the dog"], "trwmd", dtype="bfloat16")
    assert tuple(LOADED) == before
    twmd_registry.score(["a dog"], ["the dog"])
    assert len(tuple(LOADED)) == len(before) - 1
    with pytest.raises(SpecError, match="did you mean 'temperature'"):
        UNTYPED.score(["a"], ["b"], temprature=1)
    for call in (UNTYPED.load, partial(UNTYPED.score, ["a"], ["b"]), partial(UNTYPED.mbr, [["a"]])):
        with pytest.raises(SpecError, match="did you mean 'metric'"):
            call(metrc="sbert")


def test_specification_reproduces_its_score_and_takes_no_keys() -> None:
    texts = ["the cat sat", "it rains"], ["a cat sat", "it pours"]
    scored = twmd_registry.score(*texts, temperature=0.1)
    spec = twmd_registry.parse_signature(str(scored.signature)).spec
    assert twmd_registry.load(spec, device="cpu").score(*texts).scores == pytest.approx(scored.scores, abs=1e-6)
    assert twmd_registry.score(*texts, spec).signature == scored.signature
    for keys, words in (({"temperature": 0.2}, "a specification fixes temperature"), ({"preset": "x"}, "not a key")):
        with pytest.raises(SpecError, match=words):
            UNTYPED.load(spec, **keys)
