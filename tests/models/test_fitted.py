"""Fitted parts: identified by content, found by hash, and signed; other parts are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from twmd_registry.encode.idf import FREQUENCIES
from twmd_registry.encode.mean_vectors import MEAN_VECTOR
from twmd_registry.encode.words import STOP_WORDS, canonical
from twmd_registry.engine.baseline import BASELINE
from twmd_registry.errors import ModelError
from twmd_registry.models.fitted import FittedKind, hash_of, save

CORPUS = ["the cat sat on the mat", "a dog ran over the hill", "the cat sat on the mat", "it ran", "we saw it again"]
OTHER = ["the cat sat on the mat", "a dog ran"]
TEXTS = ["the cat ran", "a dog sat on the hill", "it"], [["the cat sat", "a cat ran over the mat"], ["a dog"], ["rain"]]


def short_words(corpus: list[str]) -> frozenset[str]:
    return frozenset(word for text in corpus for word in text.split() if len(word) < 3)


KINDS: dict[str, tuple[FittedKind, str, Callable[[Any, list[str]], bytes]]] = {
    "centering": (MEAN_VECTOR, "background:{}", lambda scorer, corpus: scorer.backend.fit_background(corpus).content),
    "idf": (FREQUENCIES, "background:{}", lambda scorer, corpus: scorer.backend.fit_idf(corpus).content),
    "stopwords": (STOP_WORDS, "{}", lambda _, corpus: canonical(short_words(corpus))),
    "baseline": (BASELINE, "{}", lambda scorer, corpus: scorer.fit_baseline(corpus, pairs=8).content),
}
"""By key: a type of part, the format of the key's value, and the function that fits it."""


@pytest.fixture
def model(tiny_encoder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    return str(tiny_encoder("bert"))


def metric(model: str, **keys: Any) -> twmd_registry.Scorer:
    return twmd_registry.load("moverscore", model=model, layer=2, **{"centering": "none", **keys})


@pytest.mark.parametrize("key", KINDS)
def test_part_hash_does_not_depend_on_the_order_of_texts(key: str, model: str, tmp_path: Path) -> None:
    kind, _, fit = KINDS[key]
    contents = [fit(metric(model), corpus) for corpus in (CORPUS, CORPUS[::-1], OTHER)]
    first, second, other = (save(kind, content, tmp_path) for content in contents)
    assert first == second != other
    assert first.name == kind.name(hash_of(first.read_bytes()))


@pytest.mark.parametrize("key", KINDS)
def test_fitted_part_is_found_by_its_hash_and_its_signature_reproduces_the_scores(
    key: str, model: str, tmp_path: Path
) -> None:
    kind, form, fit = KINDS[key]
    content, other = (fit(metric(model), corpus) for corpus in (CORPUS, OTHER))
    path, digest = save(kind, content, kind.home), hash_of(content)
    found, by_file, without = (
        metric(model, **keys).score(*TEXTS)
        for keys in ({key: form.format(digest)}, {key: form.format(path)}, dict[str, str]())
    )
    assert found == by_file
    assert found.scores != without.scores
    signature = str(found.signature)
    assert f"|{key}:{form.format(digest).replace(':', '%3A')}|" in signature

    def again(**parts: Any) -> twmd_registry.ScoreSet:
        return twmd_registry.load(signature, model=model, **parts).score(*TEXTS)

    assert again() == found
    path.write_bytes(other)
    with pytest.raises(ModelError, match=rf"{path.name}.*damaged"):
        again()
    path.unlink()
    with pytest.raises(ModelError, match=rf"{kind.what} {digest} is not on this machine: put {path.name} into"):
        again()
    assert again(**{kind.key: save(kind, content, tmp_path)}) == found
    with pytest.raises(ModelError, match=rf"contains the {kind.what} {hash_of(other)}, not {digest} as requested"):
        again(**{kind.key: save(kind, other, tmp_path)})


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize("wanted", ["0123456789ab", "no/such/file", "nonsense", "~nobody-of-this-name/x", "a" * 300])
def test_missing_part_is_refused(key: str, wanted: str, model: str) -> None:
    kind, form, _ = KINDS[key]
    with pytest.raises(ModelError, match=rf"{kind.what} .*{wanted}.* is n"):
        metric(model, **{key: form.format(wanted)}).score(*TEXTS)
