"""Our metrics as SacreBLEU metrics, and SacreBLEU's tests on all of them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from sacrebleu.metrics import METRICS as SACREBLEUS
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, estimate_ci

import twmd_registry
from tests.conftest import Texts
from twmd_registry.comparison.cells import Resampling
from twmd_registry.comparison.systems import compare_systems
from twmd_registry.comparison.verdict import SystemComparison
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import InputError, SpecError
from twmd_registry.plugins.sacrebleu import METRICS, TWMD, MoverScore
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName

HYPOTHESES = ["the cat sat on the mat", "it rains", "we saw a dog"]
STREAMS: list[list[Any]] = [["a cat sat on a mat", "it is raining", "we saw the dog"], [None, "rain", None]]
REFERENCES = [["a cat sat on a mat"], ["it is raining", "rain"], ["we saw the dog"]]


@pytest.mark.parametrize("metric", MetricName)
def test_corpus_and_sentence_scores_are_a_hundred_times_ours(metric: MetricName) -> None:
    ours = twmd_registry.load(metric).score(HYPOTHESES, REFERENCES)
    theirs = METRICS[metric]()
    assert theirs.corpus_score(HYPOTHESES, STREAMS).score == pytest.approx(100 * ours.score, abs=1e-4)
    assert theirs.sentence_score(HYPOTHESES[1], REFERENCES[1]).score == pytest.approx(100 * ours.scores[1], abs=1e-3)


@pytest.mark.parametrize("metric", MetricName)
def test_signature_follows_the_name(metric: MetricName) -> None:
    theirs = METRICS[metric](references=STREAMS)
    score = theirs.corpus_score(HYPOTHESES, None, n_bootstrap=50)
    for short in (False, True):
        found = twmd_registry.parse_signature(f"{score.name}|{theirs.get_signature().format(short=short)}")
        assert (found.nrefs, found.bs, found.seed) == ("var", 50, 12345)
        assert found.spec == twmd_registry.load(metric).spec


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
    def test_negative_score_keeps_its_interval(self) -> None:
        metric = MoverScore(centering="corpus", special="none", ngram=1, transform="linear")
        score = metric.corpus_score(
            ["stock prices fell", "the soup is cold", "we won"],
            [["a green hill", "trains run late", "my aunt sings"]],
            n_bootstrap=100,
        )
        assert score.score < 0
        assert f"(μ = {score._mean:.2f} ± {score._ci:.2f})" in score.format()
        assert "confidence_mean" in json.loads(score.format(is_json=True, signature=str(metric.get_signature())))

    def test_old_interval_is_not_shown_or_signed_again(self) -> None:
        metric = TWMD()
        metric.corpus_score(HYPOTHESES, STREAMS, n_bootstrap=10)
        assert "|bs:10|" in str(metric.get_signature())
        score = metric.corpus_score(HYPOTHESES, STREAMS)
        assert "|bs:" not in str(metric.get_signature())
        assert score.format() == f"twmd = {score.score:.2f}"


class TestInput:
    @pytest.mark.parametrize(
        ("hypotheses", "references", "message"),
        [
            (HYPOTHESES, [STREAMS[0], ["x"]], r"streams of different length \(3, 1\). SacreBLEU takes st"),
            (HYPOTHESES[:2], STREAMS, "2 hypotheses, but 3 texts in each reference stream. SacreBLEU takes"),
            ([], [[]], "no hypotheses"),
        ],
    )
    def test_invalid_streams_are_refused(self, hypotheses: list[str], references: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            TWMD().corpus_score(hypotheses, references)

    def test_corpus_without_references_is_refused(self) -> None:
        with pytest.raises(SpecError, match="no references"):
            TWMD().corpus_score(HYPOTHESES, None)

    @pytest.mark.parametrize(
        "references", [[[text] for text in STREAMS[0]], [["a"], ["b", "c"], ["d"]], ["a cat", "it rains", "we saw"]]
    )
    def test_references_per_segment_or_plain_texts_are_refused_with_advice(self, references: Any) -> None:
        for made, arguments in (({}, references), ({"references": references}, None)):
            with pytest.raises(InputError) as caught:
                TWMD(**made).corpus_score(HYPOTHESES, arguments)
            assert (
                "SacreBLEU takes streams, [[first reference of every hypothesis], [second of every hypothesis], ...]"
                in str(caught.value)
            )
            assert "one list per prediction" not in str(caught.value)


@pytest.mark.parametrize("kind", ["bs", "ar"])
def test_sacrebleu_paired_test_accepts_our_metrics(texts: Texts, kind: str) -> None:
    systems: list[tuple[str, Sequence[str]]] = [("base", texts.predictions), ("shuffled", texts.references[::-1])]
    metrics: dict[str, Metric] = {"twmd": TWMD(), "warm": TWMD(temperature=1.0)}
    test: Any = PairedTest(systems, metrics, [texts.references], test_type=kind, n_samples=100)
    signatures, results = test()
    assert list(results) == ["System", "twmd", "twmd[temperature=1.0]"]
    ours = twmd_registry.load("twmd").score(texts.predictions, texts.references)
    assert results["twmd"][0].score == pytest.approx(100 * ours.score, abs=1e-4)
    assert results["twmd"][1].p_value < 0.05
    assert twmd_registry.parse_signature(f"twmd|{signatures['twmd']}").seed == 12345


def systems(texts: Texts) -> list[tuple[str, Sequence[str]]]:
    swapped = [*texts.predictions[1::2], *texts.predictions[::2]]
    return [("base", texts.predictions), ("same", list(texts.predictions)), ("swapped", swapped)]


@pytest.fixture(scope="module")
def scored(texts: Texts) -> list[tuple[Scorer, list[ScoreSet]]]:
    made: tuple[tuple[str, dict[str, Any]], ...] = (
        ("twmd", {}),
        ("twmd", {"temperature": 0.5}),
        ("sbert", {"centering": "corpus", "special": "none"}),
    )
    scorers = [twmd_registry.load(metric, **keys) for metric, keys in made]
    return [
        (scorer, [scorer.score(predictions, texts.references) for _, predictions in systems(texts)])
        for scorer in scorers
    ]


@pytest.mark.parametrize("kind", ["ar", "bs"])
def test_single_different_segment_is_not_significant(kind: Literal["ar", "bs"]) -> None:
    references = [f"the cat sat on mat {i}" for i in range(60)]
    named = [("base", references), ("other", ["a dog ran here", *references[1:]])]
    scorer, streams = twmd_registry.load("twmd"), [[text] for text in references]
    base, other = (scorer.score(texts, streams) for _, texts in named)
    noise = np.random.default_rng(0).uniform(-2.4e-7, 2.4e-7, 60)
    other = replace(other, by_side=other.by_side + noise)
    found = compare_systems(
        named, streams, [(scorer, [base, other]), *LEXICAL_NAMES], resampling=Resampling(kind, 2000)
    )
    p = [column.cells[1].p_value or 0.0 for column in found.columns]
    assert p == [1.0] * 4  # the sign of one segment is as likely as the other


@pytest.mark.parametrize(("kind", "resamples"), [("ar", 100), ("bs", 0)])
def test_intervals_and_signatures_equal_sacrebleus_and_p_differs_only_by_ties(
    texts: Texts, kind: Literal["ar", "bs"], resamples: int
) -> None:
    named, streams = systems(texts), [[text] for text in texts.references]
    lexical: list[Any] = list(LEXICAL_NAMES)
    found = compare_systems(named, streams, lexical, resampling=Resampling(kind, 200, resamples, 12345))
    for name, column in zip(LEXICAL_NAMES, found.columns, strict=True):
        metric = SACREBLEUS[name.upper()]()
        test: Any = PairedTest(named, {name: metric}, [texts.references], kind, 200, resamples or -1)
        (signature,), (_, results) = (list(part.values()) for part in test())
        assert column.long_signature == f"{column.name}|{signature}"
        for cell, result in zip(column.cells, results, strict=True):
            assert (cell.mean, cell.ci) == pytest.approx((result.mean, result.ci), rel=1e-5)
            if kind == "ar" and cell is column.cells[2]:
                assert cell.p_value == result.p_value


class TestComparison:
    @pytest.fixture(autouse=True)
    def _bind(self, texts: Texts, scored: list[tuple[Scorer, list[ScoreSet]]]) -> None:
        self.texts, self.scored = texts, scored

    def compare(self, *resampling: Any, lexical: Sequence[str] = (), **options: Any) -> SystemComparison:
        references = [[reference] for reference in self.texts.references]
        return compare_systems(
            systems(self.texts), references, [*self.scored, *lexical], resampling=Resampling(*resampling), **options
        )

    @pytest.mark.parametrize("kind", ["bs", "ar"])
    def test_system_against_itself_has_p_one_and_variants_have_separate_columns(self, kind: str) -> None:
        found = self.compare(kind, 300, lexical=list(LEXICAL_NAMES))
        names = ["twmd temperature=0.1", "twmd temperature=0.5", "sbert", "BLEU", "chrF2", "TER"]
        assert [column.name for column in found.columns] == names
        assert [column.hundred for column in found.columns] == [False] * 3 + [True] * 3
        for column in found.columns:
            assert [cell.p_value for cell in column.cells[:2]] == [None, 1.0]
            assert 0 < (column.cells[2].p_value or 0) < 0.05
            assert f"|{kind}:300|seed:12345|" in column.signature
            assert column.cells[0].score == column.cells[1].score
        assert found.columns[0].cells[0].score != found.columns[1].cells[0].score
        negative = found.columns[2].cells[2]
        if kind == "bs":
            assert negative.score < 0.2
            assert negative.mean == pytest.approx(negative.score, abs=0.05)

    def test_kept_resamples_equal_the_paired_bootstraps(self) -> None:
        found = self.compare("bs", 300, 0, 7, lexical=["bleu", "ter"], keep_resamples=True)
        for column in found.columns:
            first, _, last = column.cells
            for cell in (first, last):
                mean, half = estimate_ci(np.array(cell.resampled))
                assert (mean, half) == pytest.approx((cell.mean, cell.ci), rel=1e-6)  # SacreBLEU averages in float32
            difference, n = last.score - first.score, len(self.texts.references)
            distances = np.abs(np.subtract(last.resampled, first.resampled) - difference) * math.sqrt(n / (n - 3))
            assert last.p_value == pytest.approx((int((distances >= abs(difference)).sum()) + 1) / 301)
        plain = self.compare("bs", 300, 0, 7)
        assert {cell.resampled for column in plain.columns for cell in column.cells} == {()}

    def test_every_number_of_resamples_is_signed(self) -> None:
        assert "|bs:40|seed:1|" in self.compare("bs", 40, 40, 1).columns[0].signature
        randomised = self.compare("ar", 40, 30, 1).columns[0]
        assert "|bs:30|ar:40|seed:1|" in randomised.signature
        assert randomised.cells[0].ci is not None

    @pytest.mark.parametrize("kind", ["bs", "ar"])
    def test_seed_zero_counts_and_another_seed_changes_intervals(self, kind: str) -> None:
        first, second, other = (self.compare(kind, 100, 100, seed) for seed in (0, 0, 1))
        assert first == second
        assert "|seed:0|" in first.columns[0].signature
        assert first.columns[0].cells[0].ci != other.columns[0].cells[0].ci

    def test_seed_in_the_environment_is_ignored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = self.compare("ar", 40, 30, 1)
        monkeypatch.setenv("SACREBLEU_SEED", "77")
        assert self.compare("ar", 40, 30, 1) == before

    def test_ragged_references_reach_sacrebleu_unchanged(self) -> None:
        found = compare_systems([("a", HYPOTHESES)], REFERENCES, ["bleu"], segments=True)
        assert found.columns[0].cells[0].score == BLEU().corpus_score(HYPOTHESES, STREAMS).score
        sentence = BLEU(effective_order=True).sentence_score(HYPOTHESES[1], REFERENCES[1])
        assert found.columns[0].cells[0].scores[1] == sentence.score
        assert "|nrefs:var|" in found.columns[0].signature
        assert found.resampling is None
