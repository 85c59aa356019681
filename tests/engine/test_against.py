"""Scores against the source: the texts compared, copies, weights, and the signature."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twmd_registry import load, mbr, score
from twmd_registry.encode.encoder import tokenise
from twmd_registry.encode.words import copied_tokens
from twmd_registry.engine.scorer import score_with
from twmd_registry.engine.token_backend import TokenAlignmentBackend
from twmd_registry.errors import InputError, ModelError, SpecError, TwmdWarning
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec
from twmd_registry.train.recipe import Recipe, check_trainable

PREDICTIONS = ["a dog barked at night", "the train to Berlin left at 9:30", "she likes to paint"]
SOURCES = ["the dog was loud last night", "at 9:30 the Berlin train departed", "painting is her hobby"]
REFERENCES = [["the dog was barking"], ["the Berlin train departed at 9:30"], ["she loves painting", "she paints"]]


@pytest.mark.parametrize("keys", [{}, {"centering": "batch", "centering_size": 3}])
def test_source_without_shared_words_scores_like_a_reference(keys: dict[str, Any]) -> None:
    predictions = ["a puppy barked loudly", "we left early", "he paints"]
    sources = ["the dog was loud last night", "it was time to go home", "she likes art"]
    found = score(predictions, sources=sources, against="source", **keys)
    means: dict[str, Any] = {"centering_side": "separate"} if keys else {}  # predictions and sources have their own
    assert found.scores == pytest.approx(score(predictions, sources, **means, **keys).scores, abs=1e-6)
    assert score(predictions, REFERENCES, sources=sources, against="source", **keys).scores == found.scores
    assert found.signature.nrefs == 0
    assert found.texts != score(predictions, sources=sources[::-1], against="source", **keys).texts
    assert score(predictions, REFERENCES).texts == score(predictions, REFERENCES, sources=sources).texts


def test_copy_of_the_source_scores_below_a_paraphrase() -> None:
    source = "the dog made a lot of noise with its voice"
    metrics = [metric for metric in MetricName if "against" in CATALOGUE[metric].keys]
    scorers = [load(metric, against="source") for metric in metrics]
    every = score_with(scorers, ["a dog was barking very loudly", source], sources=[source] * 2)
    assert len(every) == 6
    for found in every:
        assert found.scores[1] < found.scores[0], found.signature


@pytest.mark.parametrize(
    ("prediction", "marked"),
    [
        ("in 1934 we met him, at night", "in"),
        ("in 1934 visited him", "in1934visitedhim"),  # 2 of 3 words that a translation would not keep
        ("he went there in 1935!", "in"),
        ("1934!", ""),
    ],
)
def test_copied_words_are_marked_and_names_and_numbers_only_in_a_copy(prediction: str, marked: str) -> None:
    encoder = load("twmd").backend.model
    encoded = encoder.encode(tokenise(encoder.tokenizer, [prediction, "in 1934 visited her!"], None), [0])
    length = int(encoded.lengths[0])
    owners = np.zeros(length, dtype=np.int64)
    copied = copied_tokens(encoder.pieces, encoded, np.arange(length), owners, np.array([1]))
    pieces = encoder.decode_tokens(encoded.ids[:length].tolist())
    found = "".join(piece for piece, is_copied in zip(pieces, copied, strict=True) if is_copied)
    assert found.replace("##", "") == marked


@pytest.mark.parametrize("weight", [0.25, 0.5])
def test_both_is_the_weighted_mean_of_the_two_scores(weight: float) -> None:
    parts = [
        score(PREDICTIONS, REFERENCES),
        score(PREDICTIONS, sources=SOURCES, against="source"),
    ]
    both = score(PREDICTIONS, REFERENCES, sources=SOURCES, against="both", source_weight=weight)
    for side in ("scores", "precision", "recall", "f1"):
        wanted = np.average([getattr(part, side) for part in parts], axis=0, weights=[1 - weight, weight])
        np.testing.assert_allclose(getattr(both, side), wanted, atol=1e-6)
    assert f"|against:both|source_weight:{weight}|" in str(both.signature)


def test_member_of_an_ensemble_is_compared_with_references_and_sources() -> None:
    members = [load("twmd", against="both", source_weight=0.3), load("twmd", against="source"), load("sbert")]
    alone = [own.score(PREDICTIONS, REFERENCES, SOURCES) for own in members]
    name = "ensemble(3*twmd;against=both;source_weight=0.3,twmd;against=source,sbert)"
    found = score(PREDICTIONS, REFERENCES, name, sources=SOURCES)
    wanted = np.average([own.scores for own in alone], axis=0, weights=[3, 1, 1])
    np.testing.assert_allclose(found.scores, wanted, atol=1e-6)
    assert found.texts == alone[0].texts
    again = load(str(found.signature)).score(PREDICTIONS, REFERENCES, SOURCES)
    assert again.signature == found.signature
    assert again.scores == pytest.approx(found.scores, abs=1e-6)
    candidates = [[text, *references] for text, references in zip(PREDICTIONS, REFERENCES, strict=True)]
    chosen = mbr(candidates, name, sources=SOURCES, utilities=True).choices[0].utilities
    assert chosen is not None
    assert chosen[0, 1] == pytest.approx(found.scores[0], abs=1e-6)


def test_background_means_of_two_languages_center_one_side_each(tmp_path: Path) -> None:
    backend = TokenAlignmentBackend(make_spec("twmd"), RunOptions())
    paths = []
    for name, texts in (("a", PREDICTIONS), ("b", SOURCES)):
        paths.append(tmp_path / f"{name}.safetensors")
        paths[-1].write_bytes(backend.fit_background(texts).content)
    one, two = (
        score(PREDICTIONS, sources=SOURCES, against="source", centering=f"background:{value}")
        for value in (paths[0], f"{paths[0]}+{paths[1]}")
    )
    assert "+" in str(two.signature.spec.centering)
    assert "+" not in str(one.signature.spec.centering)
    assert one.scores != pytest.approx(two.scores, abs=1e-4)
    with pytest.raises(ModelError, match=r"two of them, HASH\+HASH, are for against=source or both"):
        score(PREDICTIONS, REFERENCES, centering=f"background:{paths[0]}+{paths[1]}")
    with pytest.raises(SpecError, match="train one comparison at a time"):
        check_trainable(two.signature.spec, Recipe())


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"references": REFERENCES, "against": "source"}, "pass sources, one per prediction"),
        ({"sources": SOURCES, "against": "both"}, "compares predictions with references.*against=source"),
        ({"sources": SOURCES}, "compares predictions with references"),
        ({"sources": SOURCES[:2], "against": "source"}, "2 sources for 3 segments"),
        ({"sources": ["a", 1, "b"], "against": "source"}, r"sources\[1\] must be a text"),
        ({"predictions": [], "sources": []}, "nothing to score: predictions and sources are empty"),
        ({"sources": SOURCES, "against": "source", "source_weight": 0.5}, "has no effect with against=source"),
        ({"sources": SOURCES, "against": "both", "source_weight": 1.5}, "between 0 and 1"),
        ({"sources": SOURCES, "against": "source", "metric": "stsscore"}, "does not use the key 'against'"),
    ],
)
def test_missing_texts_are_named_and_keys_without_a_meaning_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises((InputError, SpecError), match=words):
        score(**{"predictions": PREDICTIONS} | keys)


@pytest.mark.parametrize("side", ["predictions", "sources"])
def test_text_in_another_language_triggers_a_warning(side: str) -> None:
    german = "Die freundliche Schaffnerin verschenkt die verwitterten Gartenst\u00fchle"
    texts = {"predictions": ["The guard gives the old garden chairs away"], "sources": ["A guard gave us old chairs"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error", TwmdWarning)
        score(**texts, against="source")  # type: ignore[arg-type]
    with pytest.warns(TwmdWarning, match=r"\(mostly de.* preset multilingual-source of twmd"):
        score(**texts | {side: [german]}, against="source")  # type: ignore[arg-type]


def test_score_with_copied_words_does_not_depend_on_its_neighbours() -> None:
    predictions, sources = [*PREDICTIONS, "a dog barked at us"], [*SOURCES, "the dog barked at them"]
    together = score(predictions, sources=sources, against="source").scores
    for prediction, source, found in zip(predictions, sources, together, strict=True):
        assert score([prediction], sources=[source], against="source").scores[0] == pytest.approx(found, abs=1e-6)
