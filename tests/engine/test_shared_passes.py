"""Requests that share a pass get what they get alone."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.conftest import Texts
from tests.processes import in_a_fork
from twmd_registry.engine.pairs import Pairs, Segments, check_segments
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer, load, score_segments
from twmd_registry.engine.shared_passes import Batcher, depends_on_neighbours, score_together
from twmd_registry.engine.token_backend import TokenAlignmentBackend
from twmd_registry.errors import InputError, NotFiniteError, SpecError, TwmdError, TwmdWarning
from twmd_registry.messages import collect_warnings
from twmd_registry.registry.names import Against
from twmd_registry.registry.spec import spec_with_keys

RUSSIAN = "Быстрая коричневая лиса прыгает через ленивую собаку, и никто её не видит."


@pytest.fixture
def tasks(texts: Texts) -> list[Segments]:
    """Return requests with texts in common, several references, an empty text, unknown tokens and a long text."""
    first, second = texts.predictions[:3], texts.references[:3]
    return [
        check_segments(first, second),
        check_segments(second, [[one, other] for one, other in zip(first, second, strict=True)]),
        check_segments(["", "☃ ☃ ☃ snow", first[0]], [second[0], "☂ ☂ ☂ snow", " ".join(second * 40)]),
        check_segments(texts.predictions[3:], texts.references[3:]),
    ]


def made(metric: str) -> Scorer:
    return load(metric) if "(" in metric else Scorer(spec_with_keys(metric))


def alone(scorer: Scorer, task: Segments) -> tuple[ScoreSet | TwmdError, list[str]]:
    with collect_warnings() as notices:
        return score_segments([scorer], task)[0], notices


@pytest.mark.parametrize(
    "metric", ["moverscore;ngram=2", "bertscore_centered;punctuation=drop", "ensemble(stsscore,twmd,sbert)"]
)
def test_requests_that_share_a_pass_score_as_if_alone(metric: str, tasks: list[Segments]) -> None:
    with made(metric) as scorer:
        for (found, notices), task in zip(score_together(scorer, tasks), tasks, strict=True):
            expected, warned = alone(scorer, task)
            assert isinstance(found, ScoreSet)
            assert isinstance(expected, ScoreSet)
            np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
            np.testing.assert_allclose(found.precision or 0.0, expected.precision or 0.0, atol=1e-6)
            assert (found.signature, found.counts, found.texts) == (expected.signature, expected.counts, expected.texts)
            assert notices == warned


def test_request_has_the_warnings_of_its_own_pairs(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in (("MAX_CHECKS", 1), ("CHECK_EVERY", 1), ("WARM_SWEEPS", 0)):
        monkeypatch.setattr(f"twmd_registry.align.sinkhorn.{name}", number)
    of_one_token = check_segments(["rain"], ["snow"])
    with made("twmd;special=none;iterations=converged;temperature=0.02") as scorer:
        outcomes = score_together(scorer, [of_one_token, check_segments(*texts), of_one_token])
    assert ["did not converge" in " ".join(notices) for _, notices in outcomes] == [False, True, False]


def test_rejected_texts_do_not_affect_neighbours(tasks: list[Segments]) -> None:
    with Scorer(spec_with_keys("twmd")) as scorer:
        first, refused, last = score_together(scorer, [tasks[0], check_segments([RUSSIAN], [RUSSIAN]), tasks[1]])
    assert isinstance(refused[0], InputError)
    assert isinstance(first[0], ScoreSet)
    assert isinstance(last[0], ScoreSet)


@pytest.mark.parametrize("error", [NotFiniteError("inf"), MemoryError(), RuntimeError("CUDA out of memory")])
def test_pass_that_fails_is_made_again_for_each_request(
    error: Exception, tasks: list[Segments], monkeypatch: pytest.MonkeyPatch
) -> None:
    score_pairs, sizes = TokenAlignmentBackend.score_pairs, list[int]()

    def fail_together(backend: TokenAlignmentBackend, group: object, pairs: Pairs, *others: object) -> object:
        sizes.append(len(pairs.counts))
        if len(pairs.counts) > 3:
            raise error
        return score_pairs(backend, group, pairs, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(TokenAlignmentBackend, "score_pairs", fail_together)
    with Scorer(spec_with_keys("twmd")) as scorer:
        outcomes = score_together(scorer, tasks[:3])
    assert sizes == [9, 3, 3, 3]
    assert all(isinstance(result, ScoreSet) for result, _ in outcomes)


def test_other_errors_of_a_pass_are_raised(tasks: list[Segments], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(TokenAlignmentBackend, "score_pairs", fail)
    with Scorer(spec_with_keys("twmd")) as scorer, pytest.raises(RuntimeError, match="a mistake"):
        score_together(scorer, tasks)


def test_metrics_whose_scores_depend_on_neighbours_are_known() -> None:
    alone = "twmd", "stsscore", "twmd;centering=sentence", "bertscore_centered", "ensemble(sbert,twmd)"
    beside = "twmd;centering=batch", "twmd;centering=corpus", "moverscore;idf=corpus", "moverscore;idf=references"
    assert not any(depends_on_neighbours(made(metric)) for metric in alone)
    assert all(depends_on_neighbours(made(metric)) for metric in (*beside, "ensemble(sbert,twmd;centering=batch)"))


def test_row_that_is_refused_does_not_refuse_the_rows_of_its_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twmd_registry.engine.shared_passes.WAIT", 0.5)
    own, texts = Batcher(Scorer(spec_with_keys("sbert"))), ["it rains", "в доме тихо", "it snows"]
    with ThreadPoolExecutor(len(texts)) as pool:
        futures = [pool.submit(own.score, text, text) for text in texts]
    assert isinstance(futures[1].exception(), InputError)
    assert [futures[k].result().score for k in (0, 2)] == pytest.approx([1.0, 1.0])


def test_warning_that_is_an_error_reaches_the_row_that_it_is_about() -> None:
    own = Batcher(Scorer(spec_with_keys("sbert")))
    with warnings.catch_warnings():
        warnings.simplefilter("error", TwmdWarning)
        with pytest.raises(TwmdWarning, match="empty"):
            own.score("", "it rains")
        assert own.score("it rains", "it rains").score == pytest.approx(1.0)


@pytest.mark.parametrize("against", ["source", "both"])
def test_metric_that_needs_sources_is_refused_by_frameworks_without_them(against: Against) -> None:
    with pytest.raises(SpecError, match=f"against={against} needs sources, and this framework passes predictions"):
        Batcher(load("twmd", against=against))


COPIES: dict[str, Callable[[Batcher], Batcher]] = {
    "pickle": lambda batcher: pickle.loads(pickle.dumps(batcher)),
    "deep copy": copy.deepcopy,
}


@pytest.mark.parametrize("kind", COPIES)
def test_copy_of_a_batcher_that_has_scored_scores(kind: str) -> None:
    own = Batcher(Scorer(spec_with_keys("sbert")))
    expected = own.score("it rains", "it snows").score
    made = COPIES[kind](own)
    assert made.score("it rains", "it snows").score == expected
    assert made.waiting is not own.waiting


def test_fork_of_a_batcher_scores_and_leaves_the_parents_requests_to_the_parent() -> None:
    own = Batcher(Scorer(spec_with_keys("sbert")))
    expected = own.score("it rains", "it snows").score
    waiting = own.submit(check_segments(["it rains"], ["it rains"]), lambda scores: scores.score)
    assert in_a_fork(lambda: not own.waiting and abs(own.score("it rains", "it snows").score - expected) < 1e-6)
    assert waiting.result()[0] == pytest.approx(1.0)
