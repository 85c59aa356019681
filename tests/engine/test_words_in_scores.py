"""Words, weights, n-grams and layers from end to end: scorers against the whole method written out for single texts."""

from __future__ import annotations

import functools
import string
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import twmd_registry
from tests.oracles import family, movers
from twmd_registry.encode.encoder import Encoder
from twmd_registry.engine import pipeline
from twmd_registry.errors import TwmdWarning

PREDICTIONS = [
    "A heron waited at the weir, unbothered by the downpour.",
    "The baker's lukewarm loaves were overbaked (again).",
    "Snow.",
    "A heron waited at the weir, unbothered by the downpour.",
    "Nobody mended the lighthouse bell!",
]
REFERENCES = [
    "At the dam stood a grey heron that did not mind the rain.",
    "The bread was burnt once more, and it was cold.",
    "Snow fell on the quarry; the quarrymen went home.",
    "Some bird, perhaps a heron, was waiting for fish.",
    "The bell of the lighthouse has never been repaired.",
]
MORE = [
    [text, other] if i % 2 else [text]
    for i, (text, other) in enumerate(zip(REFERENCES, PREDICTIONS[1:] + PREDICTIONS[:1], strict=True))
]
V1: dict[str, Any] = {
    "layer": "last:5", "aggregation": "pmeans:-inf,1,inf", "special": "all", "subwords": "drop", "punctuation": "drop-ascii",
    "idf": "corpus", "centering": "none", "distance": "sqeuclidean", "transform": "linear",
}  # fmt: skip
PLAIN: dict[str, Any] = {"ngram": 1, "transform": "linear"}
"""Keys that the default of moverscore sets otherwise."""
ALIGNED = ["twmd", "trwmd", "moverscore", "bertscore_centered", "wordset_cka", "sbert"]
WAYS: dict[str, dict[str, Any]] = {
    "idf": {"idf": "corpus"},
    "idf of references": {"idf": "references"},
    "bigrams": {"ngram": 2, "idf": "corpus"},
    "sentences": {"ngram": "sentence", "idf": "references"},
    "words": {"subwords": "drop", "punctuation": "drop"},
    "layers": {"layer": "last:3", "aggregation": "pmeans"},
    "routing": {"layer": "2-5", "aggregation": "routing", "ngram": 2},
    "concat": {"layer": "1,3,6", "aggregation": "concat", "idf": "corpus"},
}


class Text(NamedTuple):
    """What the model says of one text: token ids, tokens, whether each is special, and unit vectors (T, L, D)."""

    ids: list[int]
    tokens: list[str]
    special: list[bool]
    vectors: np.ndarray


@pytest.fixture(scope="module")
def encoder() -> Iterator[Encoder]:
    with twmd_registry.scorer("twmd") as one:
        model = one.backend.model
        assert isinstance(model, Encoder)
        yield model


def said(encoder: Encoder, text: str, layers: list[int]) -> Text:
    whole = said_by_all_layers(encoder, text)
    return whole._replace(vectors=whole.vectors[:, layers])


@functools.cache
def said_by_all_layers(encoder: Encoder, text: str) -> Text:
    tokens = encoder.tokenise([text])
    with torch.inference_mode():
        states = encoder.encode(tokens, range(7)).layers
    vectors = np.stack([states[k].numpy().astype(np.float64) for k in range(7)], axis=1)
    ids = [int(i) for i in tokens.ids[0]]
    names = [str(token) for token in encoder.tokenizer.convert_ids_to_tokens(ids)]
    return Text(
        ids, names, [bool(mark) for mark in tokens.special[0]], vectors / np.linalg.norm(vectors, axis=2, keepdims=True)
    )


def taking_part(text: Text, keys: dict[str, Any], stop_words: set[str]) -> list[int]:
    """The places of the tokens that are compared, by rules that WordPiece makes simple."""
    words, word_of = list[str](), list[int]()
    for token in text.tokens:
        if token.startswith("##"):
            words[-1] += token[2:]
        else:
            words.append(token)
        word_of.append(len(words) - 1)
    kept = []
    for t, token in enumerate(text.tokens):
        gone = keys.get("special") != "all" if text.special[t] else False
        gone = gone or (keys.get("subwords") == "drop" and token.startswith("##"))
        gone = gone or (keys.get("punctuation") == "drop-ascii" and token in set(string.punctuation))
        if not gone and words[word_of[t]] not in stop_words:
            kept.append(t)
    return kept


def prepared(
    text: Text, keys: dict[str, Any], documents: list[list[int]] | None, stop_words: set[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of a text's n-grams, and what they weigh."""
    kept = taking_part(text, keys, stop_words)
    kind, _, powers = str(keys.get("aggregation", "single")).partition(":")
    vectors = []
    for t in kept:
        if kind == "pmeans":
            vectors.append(np.concatenate([movers.power_mean(text.vectors[t], power) for power in powers.split(",")]))
        elif kind == "routing":
            vectors.append(movers.routing(text.vectors[t], powers))
        else:
            vectors.append(text.vectors[t].mean(axis=0) if kind == "mean" else text.vectors[t].ravel())
    weights = None if documents is None else [movers.idf(documents, text.ids[t]) for t in kept]
    if weights is not None and not any(weights):
        weights = None
    n = keys.get("ngram", 1)
    rows, totals = movers.ngrams(np.array(vectors), weights, len(kept) if n == "sentence" else int(n))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), np.array(totals)


def layers_of(keys: dict[str, Any]) -> list[int]:
    layer = str(keys["layer"])
    return list(range(7 - int(layer[5:]), 7)) if layer.startswith("last:") else [int(k) for k in layer.split(",")]


def mover_score(
    encoder: Encoder, keys: dict[str, Any], predictions: list[str], references: list[list[str]], stop_words: set[str]
) -> list[float]:
    """MoverScore of every segment, the best of its references, each text by itself."""
    layers = layers_of(keys)
    hyp_documents = [said(encoder, text, layers).ids for text in predictions]
    ref_documents = [said(encoder, text, layers).ids for texts in references for text in texts]
    counted = {"corpus": (hyp_documents, ref_documents), "references": (ref_documents, ref_documents)}.get(
        keys.get("idf", "none"), (None, None)
    )
    found = []
    for prediction, texts in zip(predictions, references, strict=True):
        x, a = prepared(said(encoder, prediction, layers), keys, counted[0], stop_words)
        each = []
        for reference in texts:
            y, b = prepared(said(encoder, reference, layers), keys, counted[1], stop_words)
            squares = (2 - 2 * x @ y.T).clip(0)
            cost = {"similarity": squares / 2, "sqeuclidean": squares, "euclidean": np.sqrt(squares)}[
                keys.get("distance", "similarity")
            ]
            each.append(movers.score(movers.emd(cost, a, b), keys.get("transform", "linear")))
        found.append(max(each))
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {"ngram": 1},
        {"ngram": 2},
        {"ngram": "sentence", "distance": "euclidean"},
        {"idf": "references", "special": "none", "ngram": 3, "transform": "inverse"},
        {"idf": "none", "subwords": "keep", "punctuation": "keep", "aggregation": "mean", "distance": "similarity"},
        {"aggregation": "routing:gaussian", "idf": "none", "distance": "euclidean", "transform": "inverse"},
        {"aggregation": "routing:epanechnikov", "layer": "1,3,6"},
        {"aggregation": "concat", "layer": "2,5", "ngram": 2, "special": "none"},
        {"aggregation": "pmeans:1,2,3", "layer": "last:2"},
    ],
)
@pytest.mark.parametrize("references", [[[text] for text in REFERENCES], MORE], ids=["one reference", "several"])
def test_a_score_is_the_whole_method_written_out(
    encoder: Encoder, changes: dict[str, Any], references: list[list[str]]
) -> None:
    keys = V1 | changes
    with twmd_registry.scorer("moverscore", **(PLAIN | keys)) as one:
        found = one.score(PREDICTIONS, references).scores
    assert found == pytest.approx(mover_score(encoder, keys, PREDICTIONS, references, set()), abs=2e-5)


def test_stop_words_are_left_out_of_the_whole_method(encoder: Encoder, tmp_path: Path) -> None:
    stop_words = {"a", "the", "at", "by", "was", "it", "of", "overbaked", "Heron"}
    (tmp_path / "stop.txt").write_text("\n".join(sorted(stop_words)), encoding="utf-8")
    keys = V1 | {"ngram": 2}
    with twmd_registry.scorer("moverscore", **(PLAIN | keys), stopwords=tmp_path / "stop.txt") as one:
        found = one.score(PREDICTIONS, REFERENCES).scores
    wanted = mover_score(
        encoder, keys, PREDICTIONS, [[text] for text in REFERENCES], {word.lower() for word in stop_words}
    )
    assert found == pytest.approx(wanted, abs=2e-5)


TYPESET = [
    "\u201cA heron\u201d \u2013 said the keeper \u2013 \u201cwaited at the weir\u2026\u201d, unbothered.",
    "The baker\u2019s loaves were \u00abburnt\u00bb (again)!",
    "\u201c\u2026\u201d",
    "Nobody \u2014 not one \u2014 mended the bell.",
]
SET_PLAIN = [
    "'A heron,' the keeper said, 'waited at the weir, not minding the rain.'",
    "The baker's bread was burnt once more \u2026",
    "\u2026",
    "The bell has never been mended\u3002",
]


@pytest.mark.parametrize(
    ("release", "changes"),
    [("v1", {}), ("v2", {"layer": "last:1", "aggregation": "mean", "distance": "euclidean", "transform": "inverse"})],
)
@pytest.mark.parametrize("ngram", [1, 2])
def test_a_release_keeps_punctuation_that_is_not_ascii(
    encoder: Encoder, release: str, changes: dict[str, Any], ngram: int
) -> None:
    keys = V1 | changes | {"ngram": ngram}
    with twmd_registry.scorer("moverscore", f"moverscore-{release}", ngram=ngram) as one:
        found = one.score(TYPESET, SET_PLAIN)
    assert found.scores == pytest.approx(
        mover_score(encoder, keys, TYPESET, [[text] for text in SET_PLAIN], set()), abs=2e-5
    )
    with (
        twmd_registry.scorer("moverscore", f"moverscore-{release}", ngram=ngram, punctuation="drop") as one,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", TwmdWarning)
        others = one.score(TYPESET, SET_PLAIN).scores
    assert all(abs(x - y) > 1e-3 for x, y in zip(found.scores, others, strict=True))


@pytest.mark.parametrize(("release", "authors"), [("v1", 0.6475), ("v2", 0.6512)])
def test_curled_quotation_marks_score_as_the_authors_programs_do(release: str, authors: float) -> None:
    with twmd_registry.scorer("moverscore", f"moverscore-{release}", idf="none") as one:
        found = one.score(["He said \u201cyes\u201d today."], ["Today he said yes."])
    assert found.scores == pytest.approx([authors], abs=1e-4)  # their numbers were printed with four digits


def test_the_sentence_mover_is_the_distance_of_two_plain_means(encoder: Encoder) -> None:
    with twmd_registry.scorer("moverscore", "moverscore-smd") as one:
        found = one.score(PREDICTIONS, REFERENCES).scores

    def sentence(text: str) -> np.ndarray:
        layers = said(encoder, text, [2, 3, 4, 5, 6]).vectors  # (T, 5, D)
        mean = np.concatenate([layers.min(axis=1), layers.mean(axis=1), layers.max(axis=1)], axis=1).mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean))

    distances = [np.linalg.norm(sentence(x) - sentence(y)) for x, y in zip(PREDICTIONS, REFERENCES, strict=True)]
    assert found == pytest.approx([1 - distance for distance in distances], abs=1e-5)


def test_the_second_release_is_its_preset(encoder: Encoder) -> None:
    keys = V1 | {"layer": "last:1", "aggregation": "mean", "distance": "euclidean", "transform": "inverse"}
    with twmd_registry.scorer("moverscore", "moverscore-v2") as one:
        found = one.score(PREDICTIONS, MORE).scores
    assert found == pytest.approx(mover_score(encoder, keys, PREDICTIONS, MORE, set()), abs=2e-5)


@pytest.mark.parametrize("special", ["none", "partners"])
def test_greedy_matching_with_idf_is_the_hard_mover_distance(encoder: Encoder, special: str) -> None:
    with twmd_registry.scorer(
        "bertscore_centered", layer=5, centering="none", special=special, idf="references", output="f1"
    ) as one:
        found = one.score(PREDICTIONS, REFERENCES)
    documents = [said(encoder, text, [5]).ids for text in REFERENCES]
    assert found.precision is not None
    assert found.recall is not None
    for i, texts in enumerate(zip(PREDICTIONS, REFERENCES, strict=True)):
        x, y = (said(encoder, text, [5]) for text in texts)
        s = x.vectors[:, 0] @ y.vectors[:, 0].T
        own = [[t for t, mark in enumerate(text.special) if not mark] for text in (x, y)]
        chosen = [
            list(range(len(text.ids))) if special == "partners" else mine
            for text, mine in zip((x, y), own, strict=True)
        ]
        sides = []
        for text, mine, scores in ((x, own[0], s[:, chosen[1]]), (y, own[1], s[chosen[0]].T)):
            weights = [movers.idf(documents, text.ids[t]) for t in mine]
            sides.append(sum(w * max(scores[t]) for w, t in zip(weights, mine, strict=True)) / sum(weights))
        assert (found.precision[i], found.recall[i]) == pytest.approx(sides, abs=1e-5)
        assert found.scores[i] == pytest.approx(family.f1(*sides), abs=1e-5)


def scored(predictions: list[str], references: Any, **keys: Any) -> np.ndarray:
    """Scores by every metric of the family, for which each text is encoded once; shape (metrics, segments)."""
    scorers = [twmd_registry.scorer(metric, centering="none", **keys) for metric in ALIGNED]
    return np.array([found.scores for found in twmd_registry.score_all(scorers, predictions, references)])


@pytest.mark.parametrize("way", WAYS)
def test_a_text_scores_one_with_itself(way: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TwmdWarning)
        found = scored(PREDICTIONS, PREDICTIONS, **WAYS[way])
    np.testing.assert_allclose(found, np.ones((len(ALIGNED), len(PREDICTIONS))), rtol=0, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_neither_the_order_of_texts_nor_batches_nor_pieces_change_a_score(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = WAYS[way]
    found = scored(PREDICTIONS, MORE, **keys)
    order = [3, 0, 4, 2, 1]
    turned = scored([PREDICTIONS[i] for i in order], [MORE[i][::-1] for i in order], **keys)
    np.testing.assert_allclose(turned, found[:, order], atol=1e-5)
    for batch in (1, 40):
        np.testing.assert_allclose(scored(PREDICTIONS, MORE, batch_tokens=batch, **keys), found, atol=1e-5)
    monkeypatch.setattr(pipeline, "CHUNK_TOKENS", 8)
    monkeypatch.setattr(pipeline, "BLOCK_CELLS", 10)
    np.testing.assert_allclose(scored(PREDICTIONS, MORE, **keys), found, atol=1e-5)


@pytest.mark.parametrize("metric", ALIGNED)
def test_scorers_that_look_differently_do_not_disturb_each_other(metric: str) -> None:
    scorers = [twmd_registry.scorer(metric, centering="none", **keys) for keys in WAYS.values()]
    for one, together in zip(scorers, twmd_registry.score_all(scorers, PREDICTIONS, MORE), strict=True):
        assert one.score(PREDICTIONS, MORE).scores == pytest.approx(together.scores, abs=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_a_signature_gives_the_scorer_back(way: str) -> None:
    every = twmd_registry.score_all(
        [twmd_registry.scorer(metric, **WAYS[way]) for metric in ALIGNED], PREDICTIONS, MORE
    )
    back = twmd_registry.score_all([twmd_registry.scorer(str(found.signature)) for found in every], PREDICTIONS, MORE)
    for found, again in zip(every, back, strict=True):
        assert again.scores == found.scores
        assert str(again.signature) == str(found.signature)


@pytest.mark.parametrize("metric", ALIGNED)
@pytest.mark.parametrize("ngram", [1, 2, "sentence"])
def test_a_single_segment_has_no_rare_words_and_says_so(metric: str, ngram: int | str) -> None:
    # The scale of the weights, which must be 1, shows in entropic objectives and in sums that nothing divides.
    shown: dict[str, dict[str, Any]] = {
        "twmd": {"objective": "entropic"},
        "trwmd": {"objective": "entropic"},
        "wordset_cka": {"normalize": False},
    }
    keys: dict[str, Any] = {"centering": "none", "ngram": ngram, **shown.get(metric, {})}
    with pytest.warns(
        TwmdWarning, match="of which every token has the idf 0 .*: 2; their tokens count the same"
    ) as caught:
        found = twmd_registry.scorer(metric, idf="corpus", **keys).score(PREDICTIONS[:1], REFERENCES[:1])
    assert len([one for one in caught if "idf 0" in str(one.message)]) == 1
    plain = twmd_registry.scorer(metric, **keys).score(PREDICTIONS[:1], REFERENCES[:1])
    assert found.scores == pytest.approx(plain.scores, rel=1e-6)


@pytest.mark.parametrize("metric", ALIGNED)
def test_empty_texts_among_others_score_as_ever(metric: str) -> None:
    keys: dict[str, Any] = {"idf": "corpus", "ngram": 2, "punctuation": "drop", "centering": "none"}
    with pytest.warns(TwmdWarning, match="texts without a token: 4"):
        found = twmd_registry.scorer(metric, **keys).score(
            ["", PREDICTIONS[0], " ", PREDICTIONS[1]], ["", "", REFERENCES[0], REFERENCES[1]]
        )
    assert found.scores[:3] == (1.0, 0.0, 0.0)
    assert 0 < found.scores[3] < 1


def test_a_text_of_punctuation_alone_is_left_with_nothing() -> None:
    with pytest.warns(
        TwmdWarning, match="nothing is left to compare .*: 2; each scores 1 against itself and 0 against any other"
    ):
        found = twmd_registry.scorer("moverscore", "wmd", punctuation="drop").score(
            ["?!", "?!", "..."], ["?!", "Snow.", "?!"]
        )
    assert found.scores == (1.0, 0.0, 0.0)


def test_a_text_whose_words_are_all_left_out_is_compared_by_its_special_tokens_and_says_so() -> None:
    with pytest.warns(TwmdWarning, match="of which every word is left out: 2; only their special tokens are compared"):
        found = twmd_registry.scorer("moverscore", punctuation="drop", special="all").score(
            ["?!", "?!", "Snow."], ["?!", "Snow.", "..."]
        )
    assert found.scores[0] == pytest.approx(1)
    assert found.explain(0).hypothesis == ("[CLS] [SEP]",)


@pytest.mark.parametrize("form", ["don't", "don\u2019t", "DON'T"])
def test_a_stop_word_with_an_apostrophe_is_found_in_either_form(form: str, tmp_path: Path) -> None:
    (tmp_path / "stop.txt").write_text("don't\n", encoding="utf-8")
    found = twmd_registry.scorer("moverscore", "wmd", stopwords=tmp_path / "stop.txt").score(
        [f"they {form} know", "don knows"], ["snow", "snow"]
    )
    assert found.explain(0).hypothesis == ("they", "know")
    assert found.explain(1).hypothesis == ("don", "knows")


@pytest.mark.parametrize("power", [15, 51])
def test_power_means_of_a_high_power_still_tell_texts_apart(encoder: Encoder, power: int) -> None:
    keys = V1 | {"aggregation": f"pmeans:{power}", "layer": "last:2"}
    with twmd_registry.scorer("moverscore", **(PLAIN | keys)) as one:
        found = one.score(PREDICTIONS, REFERENCES).scores
    assert found == pytest.approx(
        mover_score(encoder, keys, PREDICTIONS, [[text] for text in REFERENCES], set()), abs=1e-3
    )


def test_idf_with_an_entropic_objective_is_the_whole_method_written_out(encoder: Encoder) -> None:
    keys: dict[str, Any] = {"layer": 5, "special": "all", "idf": "corpus", "centering": "none"}
    with twmd_registry.scorer("trwmd", **keys, objective="entropic", temperature=0.1, output="precision") as one:
        found = one.score(PREDICTIONS, REFERENCES).scores
    documents = [[said(encoder, text, [5]).ids for text in side] for side in (PREDICTIONS, REFERENCES)]

    def c(x: np.ndarray, a: np.ndarray, y: np.ndarray, b: np.ndarray) -> float:
        return float((a * 0.1 * np.log(np.exp(x @ y.T / 0.1) @ b)).sum() / a.sum())

    for score, *texts in zip(found, PREDICTIONS, REFERENCES, strict=True):
        (x, a), (y, b) = (
            prepared(said(encoder, text, [5]), keys, counted, set())
            for text, counted in zip(texts, documents, strict=True)
        )
        assert score == pytest.approx(family.normalised(c(x, a, y, b), c(x, a, x, a), c(y, b, y, b)), abs=2e-5)
