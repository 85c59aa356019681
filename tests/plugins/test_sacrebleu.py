"""Our metrics as SacreBLEU's, and SacreBLEU's tests over all of them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import METRICS as SACREBLEUS
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, estimate_ci

import twmd_registry
from tests.conftest import Texts
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import InputError, SpecError
from twmd_registry.plugins.sacrebleu import compare as module
from twmd_registry.plugins.sacrebleu.compare import ComparisonRequest, ScoredMetricColumn, compare_systems
from twmd_registry.plugins.sacrebleu.metric import METRICS, TWMD, BERTScoreCentered, EmbeddingMetric, MoverScore
from twmd_registry.record.comparison import SignificanceTest, SystemComparison
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName

HYPOTHESES = ["the cat sat on the mat", "it rains", "we saw a dog"]
STREAMS: list[list[Any]] = [["a cat sat on a mat", "it is raining", "we saw the dog"], [None, "rain", None]]
NO_SECOND: list[list[Any]] = [["a", None, "b"]]
REFERENCES = [["a cat sat on a mat"], ["it is raining", "rain"], ["we saw the dog"]]


def test_every_metric_has_a_sacrebleu_class() -> None:
    assert set(METRICS) == set(MetricName)
    assert all(issubclass(kind, Metric) for kind in METRICS.values())


@pytest.mark.parametrize("metric", MetricName)
def test_corpus_and_sentence_scores_are_a_hundred_times_ours(metric: MetricName) -> None:
    ours = twmd_registry.scorer(metric).score(HYPOTHESES, REFERENCES)
    theirs = METRICS[metric]()
    assert theirs.corpus_score(HYPOTHESES, STREAMS).score == pytest.approx(100 * ours.score, abs=1e-4)
    assert theirs.sentence_score(HYPOTHESES[1], REFERENCES[1]).score == pytest.approx(100 * ours.scores[1], abs=1e-3)


@pytest.mark.parametrize("metric", MetricName)
def test_the_signature_is_ours_behind_the_name(metric: MetricName) -> None:
    theirs = METRICS[metric](references=STREAMS)
    score = theirs.corpus_score(HYPOTHESES, None, n_bootstrap=50)
    for short in (False, True):
        found = twmd_registry.parse_signature(f"{score.name}|{theirs.get_signature().format(short=short)}")
        assert (found.nrefs, found.bs, found.seed) == ("var", "50", "12345")
        assert found.spec == twmd_registry.scorer(metric).spec


def test_a_signature_before_scoring_is_refused() -> None:
    with pytest.raises(ValueError, match="Number of references unknown"):
        TWMD().get_signature()


def test_segments_are_scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    metric, plain = TWMD(), Scorer.score
    calls: list[int] = []

    def counted(self: Scorer, predictions: Any, references: Any) -> ScoreSet:
        calls.append(len(predictions))
        return plain(self, predictions, references)

    monkeypatch.setattr(Scorer, "score", counted)
    for _ in range(3):
        metric.corpus_score(HYPOTHESES, STREAMS, n_bootstrap=20)
    assert calls == [3]


class TestScores:
    def test_a_negative_score_keeps_its_interval(self) -> None:
        metric = MoverScore(centering="corpus", special="none", ngram=1, transform="linear")
        score = metric.corpus_score(
            ["stock prices fell", "the soup is cold", "we won"],
            [["a green hill", "trains run late", "my aunt sings"]],
            n_bootstrap=100,
        )
        assert score.score < 0
        assert f"(μ = {score._mean:.2f} ± {score._ci:.2f})" in score.format()
        assert "confidence_mean" in json.loads(score.format(is_json=True))

    def test_without_resampling_there_is_no_interval(self) -> None:
        score = TWMD().corpus_score(HYPOTHESES, STREAMS)
        assert "μ" not in score.format()
        assert score.format(score_only=True) == f"{score.score:.2f}"

    def test_an_earlier_interval_is_not_signed_again(self) -> None:
        metric = TWMD()
        metric.corpus_score(HYPOTHESES, STREAMS, n_bootstrap=10)
        assert "|bs:10|" in str(metric.get_signature())
        metric.corpus_score(HYPOTHESES, STREAMS)
        assert "|bs:" not in str(metric.get_signature())

    def test_json_holds_every_field_of_the_signature(self) -> None:
        metric = BERTScoreCentered()
        score = metric.corpus_score(HYPOTHESES, STREAMS)
        found = json.loads(score.format(is_json=True, signature=str(metric.get_signature())))
        assert found["name"] == "bertscore_centered"
        assert found["centering"] == "background%3A370008ba2c06"
        assert found["model"] == "sentence-transformers/all-MiniLM-L6-v2@0336012e2308"

    def test_variants_have_names_of_their_own(self) -> None:
        names = [
            metric.name for metric in (TWMD(), TWMD("embedded"), TWMD(temperature=0.2), TWMD(temperature=0.2, layer=3))
        ]
        assert names == ["twmd", "twmd", "twmd[temperature=0.2]", "twmd[layer=3,temperature=0.2]"]


class TestInput:
    def test_streams_of_different_length_are_refused(self) -> None:
        with pytest.raises(
            InputError, match=r"reference streams of different length \(3, 1\). SacreBLEU takes streams"
        ):
            TWMD().corpus_score(HYPOTHESES, [STREAMS[0], ["x"]])

    def test_streams_and_hypotheses_of_different_length_are_refused(self) -> None:
        with pytest.raises(
            InputError, match="there are 2 hypotheses, but 3 texts in each reference stream. SacreBLEU takes streams"
        ):
            TWMD().corpus_score(HYPOTHESES[:2], STREAMS)

    @pytest.mark.parametrize(
        "references",
        [
            [[text] for text in STREAMS[0]],
            [[text, "x"] for text in STREAMS[0]],
            [["a"], ["b", "c"], ["d"]],
            ["a cat", "it rains", "we saw"],
            ["abc"] * 3,
        ],
    )
    def test_references_by_segment_or_bare_texts_are_refused_with_advice_about_streams(self, references: Any) -> None:
        for made, given in (({}, references), ({"references": references}, None)):
            with pytest.raises(InputError) as caught:
                TWMD(**made).corpus_score(HYPOTHESES, given)
            assert (
                "SacreBLEU takes streams, [[first reference of every hypothesis], [second of every hypothesis], ...]"
                in str(caught.value)
            )
            assert "one list per prediction" not in str(caught.value)

    def test_a_segment_without_any_reference_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"references\[1\] is an empty list"):
            TWMD().corpus_score(HYPOTHESES, NO_SECOND)

    def test_nothing_to_score_is_refused(self) -> None:
        with pytest.raises(InputError, match="there is nothing to score: no hypotheses"):
            TWMD().corpus_score([], [[]])
        with pytest.raises(InputError, match="a segment needs at least one reference"):
            TWMD().sentence_score("x", [])

    def test_no_references_at_all_is_refused(self) -> None:
        with pytest.raises(SpecError, match="no references: give them here, or to the metric"):
            TWMD().corpus_score(HYPOTHESES, None)


def paired(metrics: dict[str, Metric], kind: str, texts: Texts, samples: int = 200) -> tuple[Any, Any]:
    systems: list[tuple[str, Sequence[str]]] = [
        ("base", texts.predictions),
        ("shuffled", texts.references[::-1]),
        ("copy", texts.references),
    ]
    return PairedTest(systems, metrics, [texts.references], test_type=kind, n_samples=samples)()


@pytest.mark.parametrize("kind", ["bs", "ar"])
def test_sacrebleus_paired_test_runs_on_it_unchanged(texts: Texts, kind: str) -> None:
    signatures, results = paired({"BLEU": BLEU(), "twmd": TWMD(), "warm": TWMD(temperature=1.0)}, kind, texts)
    assert list(results) == ["System", "BLEU", "twmd", "twmd[temperature=1.0]"]
    ours = twmd_registry.scorer("twmd").score(texts.predictions, texts.references)
    assert results["twmd"][0].score == pytest.approx(100 * ours.score, abs=1e-4)
    assert results["twmd"][1].p_value < 0.05
    assert twmd_registry.parse_signature(f"twmd|{signatures['twmd']}").seed == "12345"


def systems(texts: Texts) -> list[tuple[str, Sequence[str]]]:
    swapped = [*texts.predictions[1::2], *texts.predictions[::2]]
    return [("base", texts.predictions), ("same", list(texts.predictions)), ("swapped", swapped)]


_SCORED: dict[str, list[ScoredMetricColumn]] = {}
"""Scores by the keys of the third metric, so that every test need not score anew."""


def comparison(texts: Texts, request: ComparisonRequest, lexical: Sequence[str] = (), **keys: Any) -> SystemComparison:
    name = str(sorted(keys.items()))
    if name not in _SCORED:
        scorers = [
            twmd_registry.scorer("twmd"),
            twmd_registry.scorer("twmd", temperature=0.5),
            twmd_registry.scorer("sbert", **keys),
        ]
        _SCORED[name] = [
            ScoredMetricColumn(scorer, tuple(scorer.score(own, texts.references) for _, own in systems(texts)))
            for scorer in scorers
        ]
    return compare_systems(
        systems(texts), [[reference] for reference in texts.references], [*_SCORED[name], *lexical], request=request
    )


class TestComparing:
    @pytest.mark.parametrize("kind", ["bs", "ar"])
    def test_a_system_against_itself_has_p_one_and_variants_keep_apart(self, texts: Texts, kind: str) -> None:
        found = comparison(texts, ComparisonRequest(SignificanceTest(kind, 300, 12345)), list(LEXICAL_NAMES))
        assert [column.name for column in found.columns] == [
            "twmd temperature=0.15",
            "twmd temperature=0.5",
            "sbert",
            "BLEU",
            "chrF2",
            "TER",
        ]
        assert [column.hundred for column in found.columns] == [False] * 3 + [True] * 3
        for column in found.columns:
            assert [cell.p_value for cell in column.cells[:2]] == [None, 1.0]
            assert 0 < (column.cells[2].p_value or 0) < 0.05
            assert f"|{kind}:300|seed:12345|" in column.signature
            assert column.cells[0].score == column.cells[1].score
        assert found.columns[0].cells[0].score != found.columns[1].cells[0].score

    def test_kept_resamples_are_those_of_the_paired_bootstrap(self, texts: Texts) -> None:
        found = comparison(
            texts, ComparisonRequest(SignificanceTest("bs", 300, 7), seed=7, keep_resamples=True), list(LEXICAL_NAMES)
        )
        for column in found.columns:
            first, _, last = column.cells
            for cell in (first, last):
                mean, half = estimate_ci(np.array(cell.resampled))
                assert (mean, half) == pytest.approx((cell.mean, cell.ci), rel=1e-6)  # SacreBLEU averages in float32
            apart = np.abs(np.subtract(last.resampled, first.resampled))
            beyond = int((apart - apart.mean() > abs(last.score - first.score)).sum())
            assert last.p_value == pytest.approx((beyond + 1) / 301)
        plain = comparison(texts, ComparisonRequest(SignificanceTest("bs", 300, 7), seed=7))
        assert {cell.resampled for column in plain.columns for cell in column.cells} == {()}

    def test_every_number_of_resamples_is_signed(self, texts: Texts) -> None:
        bootstrap = comparison(texts, ComparisonRequest(SignificanceTest("bs", 40, 1), 40, 1))
        randomised = comparison(texts, ComparisonRequest(SignificanceTest("ar", 40, 1), 30, 1))
        assert "|bs:40|seed:1|" in bootstrap.columns[0].signature
        assert "|bs:30|ar:40|seed:1|" in randomised.columns[0].signature
        assert randomised.columns[0].cells[0].ci is not None

    def test_two_numbers_of_resamples_for_one_bootstrap_are_refused(self, texts: Texts) -> None:
        with pytest.raises(SpecError, match=r"got 40 for the test .* and 30 for the intervals \(--confidence-n\)\.$"):
            comparison(texts, ComparisonRequest(SignificanceTest("bs", 40, 1), 30, 1))

    @pytest.mark.parametrize("seed", [0, 1])
    @pytest.mark.parametrize("kind", ["bs", "ar"])
    def test_every_seed_is_a_seed(self, texts: Texts, seed: int, kind: str) -> None:
        one, other = (
            comparison(texts, ComparisonRequest(SignificanceTest(kind, 100, seed), 0, seed)) for _ in range(2)
        )
        assert one == other
        assert f"|seed:{seed}|" in one.columns[0].signature

    def test_another_seed_gives_other_intervals(self, texts: Texts) -> None:
        one, other = (comparison(texts, ComparisonRequest(None, 100, seed)) for seed in (0, 1))
        assert one.columns[0].cells[0].ci != other.columns[0].cells[0].ci
        assert one.columns[0].cells[0].score == other.columns[0].cells[0].score

    def test_intervals_are_the_bootstraps(self, texts: Texts) -> None:
        found = comparison(texts, ComparisonRequest(None, 2000, 5), ["chrf"])
        scores = np.array(found.columns[0].cells[0].segments)
        cell = found.columns[0].cells[0]
        assert cell.mean == pytest.approx(scores.mean(), abs=3 * scores.std() / math.sqrt(2000 * len(scores)) + 1e-6)
        assert cell.ci == pytest.approx(1.96 * scores.std() / math.sqrt(len(scores)), rel=0.15)
        assert found.columns[-1].cells[0].ci > 0.1  # type: ignore[operator]

    def test_every_number_is_one_that_json_takes(self, texts: Texts) -> None:
        found = comparison(texts, ComparisonRequest(resamples=20), list(LEXICAL_NAMES))
        cells = [cell for column in found.columns for cell in column.cells]
        assert {type(value) for cell in cells for value in (cell.score, cell.mean, cell.ci)} == {float}

    def test_negative_scores_keep_their_interval(self, texts: Texts) -> None:
        found = comparison(texts, ComparisonRequest(SignificanceTest("bs", 100, 1)), centering="corpus", special="none")
        shuffled = found.columns[2].cells[2]
        assert shuffled.score < 0.2
        assert shuffled.ci is not None
        assert shuffled.mean == pytest.approx(shuffled.score, abs=0.05)

    def test_sacrebleus_own_numbers_are_sacrebleus(self, texts: Texts) -> None:
        found = comparison(texts, ComparisonRequest(segments=True), list(LEXICAL_NAMES))
        bleu = BLEU()
        assert found.columns[3].cells[0].score == bleu.corpus_score(texts.predictions, [texts.references]).score
        assert found.columns[3].signature == f"BLEU|{bleu.get_signature()}"
        sentence = BLEU(effective_order=True).sentence_score(texts.predictions[4], [texts.references[4]])
        assert found.columns[3].cells[0].segments[4] == sentence.score

    @pytest.mark.parametrize("name", LEXICAL_NAMES)
    def test_sacrebleus_metrics_have_the_names_of_their_scores(self, name: str) -> None:
        metric = SACREBLEUS[name.upper()]()
        assert metric.corpus_score(["a b c d"], [["a b c d"]]).name == LEXICAL_NAMES[name]

    def test_ragged_references_reach_sacrebleu_as_they_are(self) -> None:
        found = compare_systems([("a", HYPOTHESES)], REFERENCES, ["bleu"])
        assert found.columns[0].cells[0].score == BLEU().corpus_score(HYPOTHESES, STREAMS).score
        assert "|nrefs:var|" in found.columns[0].signature

    def test_a_test_of_one_system_is_refused(self, texts: Texts) -> None:
        with pytest.raises(SpecError, match="a paired test compares systems: give two or more"):
            compare_systems(
                [("a", HYPOTHESES)], REFERENCES, ["bleu"], request=ComparisonRequest(SignificanceTest("bs", 10, 1))
            )

    def test_segments_are_not_scored_again(self, texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
        scorer = twmd_registry.scorer("twmd")
        scored = [ScoredMetricColumn(scorer, tuple(scorer.score(own, texts.references) for _, own in systems(texts)))]
        calls: list[object] = []
        monkeypatch.setattr(Scorer, "score", lambda *texts: calls.append(texts))
        found = compare_systems(
            systems(texts),
            [[one] for one in texts.references],
            scored,
            request=ComparisonRequest(SignificanceTest("ar", 50, 1), 50),
        )
        assert calls == []
        assert [cell.score for cell in found.columns[0].cells] == [scores.score for scores in scored[0].scores]

    def test_the_seed_of_the_environment_is_given_back(self, texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SACREBLEU_SEED", "77")
        with module._seeded(3):
            pass
        assert os.environ["SACREBLEU_SEED"] == "77"
        monkeypatch.delenv("SACREBLEU_SEED")
        with module._seeded(3):
            assert os.environ["SACREBLEU_SEED"] == "3"
        assert "SACREBLEU_SEED" not in os.environ


def test_the_base_class_names_no_metric() -> None:
    with pytest.raises(AttributeError, match="METRIC"):
        EmbeddingMetric()
