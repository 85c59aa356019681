"""Tests that our scores match those of the authors' code on the embedded model."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twmd_registry
from tests.conftest import Texts, shared
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.registry.spec import make_spec

TOLERANCE = 2e-5
NAMES = {"sbert": "sbert", "cka": "wordset_cka", "bertscore": "bertscore_centered", "twmd": "twmd", "trwmd": "trwmd"}
CENTERINGS: dict[str, dict[str, Any]] = {
    "none": {"centering": "none"},
    "batch32-separate": {"centering": "batch", "centering_size": 32, "centering_side": "separate"},
}


def golden(name: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(shared(f"golden/{name}").read_text(encoding="utf-8"))
    return table


@pytest.fixture(scope="module")
def pairs() -> Texts:
    rows = [json.loads(line) for line in shared("golden/pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    return Texts([row["prediction"] for row in rows], [row["reference"] for row in rows])


def keys_of(label: str) -> tuple[str, dict[str, Any]]:
    """Return the metric and the specification keys of a label such as
    ``layer=4|special=cls|centering=none|metric=twmd|T=0.1|iters=3``."""
    fields = dict(field.split("=", 1) for field in label.split("|"))
    metric = NAMES[fields["metric"]]
    keys: dict[str, Any] = {
        "layer": int(fields["layer"]),
        "special": fields["special"],
        **CENTERINGS[fields["centering"]],
    }
    if metric == "sbert":
        keys["vectors"] = "unit"
    if "T" in fields:
        keys["temperature"] = float(fields["T"])
    if metric == "twmd":
        keys["iterations"] = int(fields["iters"])
    return metric, keys


def largest_difference(found: ScoreSet, expected: dict[str, list[float]]) -> float:
    worst = 0.0
    for side, values in expected.items():
        mine = found.scores if side == "score" else getattr(found, side)
        worst = max(worst, float(np.abs(np.array(mine) - np.array(values)).max()))
    return worst


def test_twmd_family_scores_match_the_golden_scores(pairs: Texts) -> None:
    table = golden("twmd_family.json")
    labels = [keys_of(label) for label in table]
    found = twmd_registry.score_all([Scorer(make_spec(metric, "embedded", **keys)) for metric, keys in labels], *pairs)
    worst = {label: largest_difference(one, table[label]) for label, one in zip(table, found, strict=True)}
    assert len(worst) > 80
    assert {label: difference for label, difference in worst.items() if not difference <= TOLERANCE} == {}


@pytest.mark.parametrize("idf", ["none", "references"])
def test_bertscore_matches_the_golden_scores(pairs: Texts, idf: str) -> None:
    keys: dict[str, Any] = {"layer": 4, "special": "partners", "centering": "none", "idf": idf}
    found = twmd_registry.load("bertscore_centered", "embedded", **keys).score(*pairs)
    assert largest_difference(found, golden("bertscore.json")[f"layer=4|idf={idf}"]) <= TOLERANCE


def moverscore_keys(label: str) -> dict[str, Any]:
    """Return the specification keys of a label such as ``v1|ngram=1|idf=corpus|subwords=drop``."""
    release, *fields = label.split("|")
    return {"preset": f"moverscore-{release}", **dict(field.split("=", 1) for field in fields)}


def test_moverscore_scores_match_the_golden_scores(pairs: Texts) -> None:
    table = golden("moverscore.json")
    found = twmd_registry.score_all(
        [Scorer(make_spec("moverscore", **moverscore_keys(label))) for label in table], *pairs
    )
    off = {label: np.array(one.scores) - np.array(table[label]) for label, one in zip(table, found, strict=True)}
    assert len(off) == 10
    # Both texts of two pairs have equal tokens. Our distance is zero; the authors' program takes the root of a float32
    # rounding error.
    same = [i for i, (one, other) in enumerate(zip(*pairs, strict=True)) if one == other or i == 21]
    assert same == [5, 21]
    for label, differences in off.items():
        rooted = label.startswith("v2")
        assert np.abs(np.delete(differences, same if rooted else [])).max() <= TOLERANCE, label
        if rooted:
            moved = np.array([1 / table[label][i] - 1 / found[list(table).index(label)].scores[i] for i in same])
            assert (np.square(moved) <= 4e-7).all(), label


def test_sbert_with_sentence_transformers_preset_matches_the_golden_cosine(pairs: Texts) -> None:
    found = twmd_registry.load("sbert", "sentence-transformers").score(*pairs)
    assert largest_difference(found, {"score": golden("sentence_transformers.json")["cosine"]}) <= TOLERANCE


@pytest.mark.parametrize("release", ["v1", "v2"])
@pytest.mark.parametrize("subwords", ["drop", "keep"])
def test_stop_words_drop_the_same_pieces_as_moverscores_authors(release: str, subwords: str, tmp_path: Path) -> None:
    text, stop_words = "don't toss tofu to tover over overcaffeinated toes", {"to", "over", "don't", "tofu", "t"}
    (tmp_path / "stop.txt").write_text("\n".join(stop_words), encoding="utf-8")
    keys: dict[str, Any] = {"preset": f"moverscore-{release}", "subwords": subwords, "special": "none"}
    scorer = twmd_registry.load("moverscore", stopwords=tmp_path / "stop.txt", **keys)
    ids = scorer.backend.model.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).tokens
    assert {"to", "##ver", "##fu"} < set(ids)
    found = scorer.score([text], [text])
    # moverscore.py and moverscore_v2.py: `w in set(string.punctuation) or '##' in w or w in stop_words`
    left = [w for w in ids if not (w in string.punctuation or ("##" in w and subwords == "drop") or w in stop_words)]
    assert found.explain(0).hypothesis == tuple(left)
    assert "|stopword_unit:piece|" in str(found.signature)
    assert "stopword_unit" not in str(twmd_registry.load("moverscore", **keys).signature)
    by_word = twmd_registry.load("moverscore", stopwords=tmp_path / "stop.txt", **keys, stopword_unit="word").score(
        [text], [text]
    )
    assert by_word.explain(0).hypothesis != tuple(left)
