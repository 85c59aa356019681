"""Documents: ``align=sentences`` (links by dynamic programming, scores of sentences), and scores by document."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import twmd_registry
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.sentences import SIZES, SentenceLink, match_sentences
from twmd_registry.errors import InputError, TwmdWarning
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName

COUNTS = ("links", "unmatched_predictions", "unmatched_references")
PREDICTION = (
    "the cat sat on the mat",
    "it rains a lot today",
    "we saw a dog",
    "the shop opens at nine and closes at six",
)
REFERENCE = (
    "a cat was sitting on the mat",
    "it is raining a lot",
    "he bought an old car in Berlin last year",
    "we saw the dog",
    "the shop opens at nine",
    "it closes at six",
)
ALIGNED = [metric for metric in MetricName if "align" in CATALOGUE[metric].keys]
TOLERANCE = 1e-5


def score(prediction: Any, reference: Any, metric: str = "twmd", **keys: Any) -> ScoreSet:
    return twmd_registry.score(prediction, reference, metric, **keys)


def of_documents(prediction: Any, reference: Any, metric: str = "twmd", **keys: Any) -> ScoreSet:
    return score(["\n".join(prediction)], ["\n".join(reference)], metric, align="sentences", **keys)


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    norms = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / norms if norms else 0.0


def background(hyp: np.ndarray, ref: np.ndarray) -> float:
    """Return the mean cosine of sentences that are neither's best match, in plain loops."""
    s = [[cosine(x, y) for y in ref] for x in hyp]
    rest = [
        s[i][j]
        for i, j in itertools.product(range(len(hyp)), range(len(ref)))
        if s[i][j] < max(s[i]) - 1e-6 and s[i][j] < max(row[j] for row in s) - 1e-6
    ]
    return sum(rest) / len(rest) if rest else 0.0


def every_matching(n: int, m: int) -> Iterator[list[SentenceLink]]:
    """Yield every list of monotone links, the last sentences first decided."""
    yield []
    for i, j in itertools.product(range(1, n + 1), range(1, m + 1)):
        for a, b in SIZES:
            if a <= i and b <= j:
                for rest in every_matching(i - a, j - b):
                    yield [*rest, SentenceLink(slice(i - a, i), slice(j - b, j))]


def value(links: list[SentenceLink], hyp: np.ndarray, ref: np.ndarray, b: float) -> float:
    return sum(cosine(hyp[x].sum(0), ref[y].sum(0)) - b for x, y in links)


@settings(max_examples=150)
@example(n=4, m=4, seed=981, whole=True)  # cosines that are equal but for rounding
@given(n=st.integers(1, 5), m=st.integers(1, 5), seed=st.integers(0, 2**32 - 1), whole=st.booleans())
def test_links_are_the_best_of_all_monotone_matchings(n: int, m: int, seed: int, whole: bool) -> None:
    draw = np.random.default_rng(seed)
    hyp, ref = (draw.integers(-1, 3, (k, 2)).astype(float) if whole else draw.normal(1, 1, (k, 3)) for k in (n, m))
    found, b = match_sentences(hyp, ref), background(hyp, ref)
    best = max(value(links, hyp, ref, b) for links in every_matching(n, m))
    assert value(found, hyp, ref, b) == pytest.approx(best, abs=1e-9)
    for k in range(2):
        ends = [(link[k].start, link[k].stop) for link in found]
        assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(ends))
    assert all((x.stop - x.start, y.stop - y.start) in SIZES for x, y in found)


def test_single_sentences_are_matched_whatever_their_similarity() -> None:
    one = np.array([[1.0, 0.0]])
    assert match_sentences(one, np.array([[0.0, 1.0]])) == [(slice(0, 1), slice(0, 1))]
    assert match_sentences(one, np.array([[0.0, 1.0], [1.0, 0.1]])) == [(slice(0, 1), slice(1, 2))]


@pytest.mark.parametrize("metric", ALIGNED)
def test_single_sentence_scores_as_a_text(metric: str) -> None:
    texts, references = list(PREDICTION[:3]), list(REFERENCE[:3])
    with pytest.warns(TwmdWarning, match="no text has two lines"):
        ours = score(texts, references, metric, align="sentences")
    theirs = score(texts, references, metric)
    for side in ("scores", "precision", "recall", "f1"):
        expected = getattr(theirs, side)
        assert getattr(ours, side) == (None if expected is None else pytest.approx(expected, abs=TOLERANCE))
    assert "|align:sentences|" in str(ours.signature)
    assert "align" not in str(theirs.signature)


@pytest.mark.parametrize("metric", ALIGNED)
def test_document_is_the_mean_over_its_sentences_with_zero_for_unmatched_ones(metric: str) -> None:
    prediction, reference = PREDICTION[:3], REFERENCE[:4]  # the third of the reference has no match
    ours = of_documents(prediction, reference, metric)
    pairs = score(list(prediction), [reference[i] for i in (0, 1, 3)], metric)
    assert ours.counts.sentences == dict(zip(COUNTS, (3, 0, 1), strict=True))
    assert ours.as_dict()["unmatched_references"] == 1
    if pairs.precision is None or pairs.recall is None:
        assert ours.score == pytest.approx(2 * sum(pairs.scores) / 7, abs=TOLERANCE)
        return
    assert ours.precision == pytest.approx([sum(pairs.precision) / 3], abs=TOLERANCE)
    assert ours.recall == pytest.approx([sum(pairs.recall) / 4], abs=TOLERANCE)
    assert ours.f1 == pytest.approx([2 * sum(pairs.f1 or ()) / 7], abs=TOLERANCE)


def test_sentence_of_one_side_is_compared_with_two_of_the_other() -> None:
    merged = of_documents(PREDICTION, REFERENCE)
    assert merged.counts.sentences == dict(zip(COUNTS, (4, 0, 1), strict=True))
    pairs = score(list(PREDICTION[:3]), [REFERENCE[i] for i in (0, 1, 3)])
    last = merged.score * 10 - 2 * sum(pairs.scores)  # three sentences have it
    (whole,) = score([PREDICTION[3]], [f"{REFERENCE[4]}. {REFERENCE[5]}"]).scores
    assert last / 3 == pytest.approx(whole, abs=0.1)  # the tokens of two encoded sentences, not of a longer one
    swapped = of_documents(REFERENCE, PREDICTION)
    assert swapped.precision == pytest.approx(merged.recall, abs=TOLERANCE)
    assert swapped.recall == pytest.approx(merged.precision, abs=TOLERANCE)
    assert swapped.scores == pytest.approx(merged.scores, abs=TOLERANCE)
    assert swapped.counts.sentences["unmatched_predictions"] == 1


@pytest.mark.parametrize("metric", ALIGNED)
def test_document_against_itself_scores_one_and_blank_lines_do_not_count(metric: str) -> None:
    texts = ["\n".join(PREDICTION), "", "\n \n" + "\n\n".join(REFERENCE) + "\n"]
    found = score(texts, ["\n".join(PREDICTION), "\n", "\n".join(REFERENCE)], metric, align="sentences")
    assert found.scores == pytest.approx((1.0, 1.0, 1.0), abs=TOLERANCE)
    assert (found.counts.segments, found.counts.empty) == (3, 2)


def test_documents_do_not_depend_on_others_or_on_batches() -> None:
    documents = ["\n".join(PREDICTION), "it rains", "\n".join(REFERENCE[::-1]), ""] * 5
    references = ["\n".join(REFERENCE), "it is raining\nagain", "\n".join(PREDICTION), "a cat"] * 5
    together = score(documents, references, align="sentences", batch_tokens=16)
    alone = [score([text], [own], align="sentences").score for text, own in zip(documents, references, strict=True)]
    assert together.scores == pytest.approx(alone, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("prediction", "reference", "counts"), [("", "a cat\nit rains", (0, 0, 2)), ("a cat", " \n", (0, 1, 0))]
)
@pytest.mark.parametrize("metric", ALIGNED)
def test_sentences_are_unmatched_where_the_other_document_is_empty(
    prediction: str, reference: str, counts: tuple[int, ...], metric: str
) -> None:
    found = score([prediction], [reference], metric, align="sentences")
    assert found.scores == [0.0]
    assert found.counts.sentences == dict(zip(COUNTS, counts, strict=True))


@pytest.mark.parametrize("multiref", ["max", "mean"])
def test_several_references_are_matched_one_by_one(multiref: str) -> None:
    both = ["\n".join(REFERENCE), "\n".join(PREDICTION[:2])]
    found = score(["\n".join(PREDICTION)], [both], align="sentences", multiref=multiref)
    single = [score(["\n".join(PREDICTION)], [own], align="sentences") for own in both]
    reduce: Any = {"max": max, "mean": np.mean}[multiref]
    assert found.score == pytest.approx(reduce([own.score for own in single]), abs=TOLERANCE)
    for name in COUNTS:
        assert found.counts.sentences[name] == sum(own.counts.sentences[name] for own in single)


@pytest.mark.filterwarnings("ignore:texts without a token")
@pytest.mark.parametrize("side", ["joint", "separate"])
@pytest.mark.parametrize("centering", ["batch", "corpus"])
def test_population_of_a_mean_is_every_sentence_of_the_documents(centering: str, side: str) -> None:
    def size(segments: int) -> dict[str, Any]:
        return {"centering_size": segments} if centering == "batch" else {}

    keys: dict[str, Any] = {"centering": centering, "centering_side": side}
    predictions, references = [PREDICTION[:3], REFERENCE[:2]], [REFERENCE[:2], PREDICTION[:2]]
    hyp, ref = (["\n".join(own) for own in texts] for texts in (predictions, references))
    found = score(hyp, ref, align="sentences", **keys, **size(2))
    # The same population: an empty text has no token.
    pairs = score([*PREDICTION[:3], *REFERENCE[:2]], [*REFERENCE[:2], "", *PREDICTION[:2]], **keys, **size(5))
    assert found.counts.sentences == dict(zip(COUNTS, (4, 1, 0), strict=True))
    expected = (2 * sum(pairs.scores[:2]) / 5, sum(pairs.scores[3:]) / 2)
    assert found.scores == pytest.approx(expected, abs=TOLERANCE)


SEGMENTS = ["the cat sat", "it rains", "we saw a dog", "the shop is open", "it rains again"]
OTHERS = ["a cat sat", "it pours", "we saw the dog", "the shop opens", "rain again"]
DOCUMENTS = ["b", "a", "b", "a", "alone"]


@pytest.fixture(scope="module")
def scores() -> ScoreSet:
    return twmd_registry.score(SEGMENTS, OTHERS)


def test_score_of_a_document_is_the_mean_of_its_segments_in_any_order(scores: ScoreSet) -> None:
    found = scores.by_document(DOCUMENTS)
    assert list(found) == ["b", "a", "alone"]
    for name, own in found.items():
        of_document = [score for score, document in zip(scores.scores, DOCUMENTS, strict=True) if document == name]
        assert own.segments == len(of_document)
        assert own.score == pytest.approx(np.mean(of_document), abs=1e-12)
    assert (found["alone"].mean, found["alone"].ci) == (None, None)  # no interval of one segment
    assert all(own.ci is None for own in scores.by_document(DOCUMENTS, resamples=0).values())
    with pytest.raises(InputError, match="4 names of documents for 5 segments: pass one per segment"):
        scores.by_document(DOCUMENTS[:4])
    nameless: tuple[Any, ...] = (None, float("nan"), ["b"])
    for name in nameless:
        with pytest.raises(InputError, match=r"documents\[4\] must be a name"):
            scores.by_document([*DOCUMENTS[:4], name])


def test_interval_equals_the_one_of_resampled_segments(scores: ScoreSet) -> None:
    (own,) = scores.by_document(["one"] * 5, resamples=20_000, seed=7).values()
    values = np.array(scores.scores)
    means = values[np.random.default_rng(1).integers(5, size=(20_000, 5))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    assert own.mean == pytest.approx(values.mean(), abs=0.003)
    assert own.ci == pytest.approx((high - low) / 2, rel=0.05)
    assert scores.by_document(["one"] * 5, seed=7) == scores.by_document(["one"] * 5, seed=7)
