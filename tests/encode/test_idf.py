"""Document frequencies: counted by a loop, fitted, kept, found and refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twmd_registry
from tests import tiny
from tests.encode import vocabularies
from tests.oracles import movers
from twmd_registry.encode.idf import (
    FREQUENCIES,
    find_idf,
    idf_weights,
    read_idf,
    vocabulary_hash,
    vocabulary_size,
)
from twmd_registry.engine.backends import TokenAlignmentBackend
from twmd_registry.errors import InputError, ModelError
from twmd_registry.models.fitted import save
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec

CORPUS = ["the cat sat on the mat", "a dog ran over the hill", "the cat sat on the mat", "it", "we saw zebras again"]


@pytest.fixture
def backend(tmp_path: Path) -> TokenAlignmentBackend:
    return make_backend(tiny.save_encoder("bert", tmp_path / "bert"))


def make_backend(folder: Path, **keys: Any) -> TokenAlignmentBackend:
    return TokenAlignmentBackend(
        make_spec("moverscore", model=str(folder), layer=2, centering="none", **keys), RunOptions()
    )


def token_ids(texts: list[str]) -> list[list[int]]:
    return [[int(i) for i in tiny.tokenizer()(text)["input_ids"]] for text in texts]


def expected_weights(texts: list[str]) -> list[float]:
    rows = token_ids(texts)
    return [movers.idf(rows, token) for token in range(len(tiny.WORDS) + 4)]


def changed(backend: TokenAlignmentBackend, **changes: Any) -> bytes:
    """Return a frequency file that is fitted on the corpus, with some of its entries changed."""
    fitted = json.loads(backend.fit_idf(CORPUS))
    return json.dumps(fitted | changes).encode()


def test_weight_is_the_log_inverse_document_frequency(backend: TokenAlignmentBackend, tmp_path: Path) -> None:
    path = save(FREQUENCIES, backend.fit_idf(CORPUS), tmp_path)
    found = find_idf(str(path), backend.model.tokenizer)
    np.testing.assert_allclose(idf_weights(found.content), expected_weights(CORPUS), atol=1e-6)
    assert found.content[-1] == len(CORPUS)


def test_empty_text_is_a_text_without_any_token(backend: TokenAlignmentBackend, tmp_path: Path) -> None:
    found = find_idf(
        str(save(FREQUENCIES, backend.fit_idf([*CORPUS, "", " "]), tmp_path)), backend.model.tokenizer
    ).content
    assert found[-1] == len(CORPUS) + 2
    np.testing.assert_allclose(idf_weights(found), expected_weights([*CORPUS, "", " "]), atol=1e-6)


def test_frequencies_of_another_tokenizer_are_refused(backend: TokenAlignmentBackend, tmp_path: Path) -> None:
    path = save(FREQUENCIES, backend.fit_idf(CORPUS), tmp_path)
    other = vocabularies.word_level()
    assert vocabulary_hash(other) != vocabulary_hash(backend.model.tokenizer)
    with pytest.raises(ModelError, match=r"of another tokenizer .*: fit them with 'twmd fit-idf'"):
        find_idf(str(path), other)


def test_models_that_share_a_tokenizer_share_frequencies(backend: TokenAlignmentBackend, tmp_path: Path) -> None:
    path = save(FREQUENCIES, backend.fit_idf(CORPUS), tmp_path)
    other = tiny.save_encoder("electra", tmp_path / "electra", seed=5)
    one = twmd_registry.scorer("moverscore", model=str(other), layer=1, centering="none", idf=f"background:{path}")
    assert one.score(["the cat"], ["the cat"]).scores == pytest.approx((1.0,))


NO_FILE = r"odd.json is not a file of document frequencies"
TOO_MANY = r"odd.json holds a token in more texts than there are \(5\), in fewer than none"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", NO_FILE),
        (b"no json", NO_FILE),
        (b"[1, 2]", NO_FILE),
        (b"{}", NO_FILE),
        (b'{"counts": [1], "documents": 3, "tokenizer": "x"}', NO_FILE),
        (b'{"counts": {"a": 1}, "documents": 3, "tokenizer": "x"}', NO_FILE),
        (b'{"counts": {}, "documents": 3, "tokenizer": "/a/path"}', NO_FILE),
        (b"\xff\xfe", NO_FILE),
        ({"counts": {"4": 6}}, TOO_MANY),
        ({"counts": {"4": -1}}, TOO_MANY),
        ({"counts": {"4": 2, "5": 10**9}}, TOO_MANY),
        ({"documents": -1}, "odd.json"),
        ({"documents": "many"}, "odd.json"),
        ({"documents": None}, "odd.json"),
        ({"documents": 10**400}, "odd.json"),
        ({"documents": 1 << 53}, "odd.json"),
        ({"documents": 5.5}, "odd.json"),
        ({"counts": {"4": 10**30}}, "odd.json"),
        ({"counts": {"4": 2.7}}, "odd.json"),
    ],
)
def test_file_of_invalid_frequencies_is_refused(
    backend: TokenAlignmentBackend, tmp_path: Path, content: bytes | dict[str, Any], words: str
) -> None:
    """Whole contents, and changes of a fitted file."""
    (tmp_path / "odd.json").write_bytes(content if isinstance(content, bytes) else changed(backend, **content))
    with pytest.raises(ModelError, match=words):
        find_idf(str(tmp_path / "odd.json"), backend.model.tokenizer)


def test_ids_beyond_the_vocabulary_are_ignored(backend: TokenAlignmentBackend, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_bytes(changed(backend, counts={"4": 2, "999999999999": 1}))
    found = read_idf(tmp_path / "odd.json", vocabulary_size(backend.model.tokenizer))
    assert found.content[4] == 2


def test_corpus_without_text_is_refused(backend: TokenAlignmentBackend) -> None:
    for fit in (backend.fit_idf, backend.fit_background):
        with pytest.raises(InputError, match="every text is empty"):
            fit(["", " "])


def test_weights_are_never_negative() -> None:
    found = idf_weights(np.array([0, 1, 3, 3]))
    assert found.tolist() == pytest.approx([math.log(4), math.log(2), 0.0])
