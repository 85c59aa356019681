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
    DocumentFrequencies,
    find_idf,
    read_idf,
    vocabulary_hash,
    vocabulary_size,
)
from twmd_registry.engine.backends import TokenAlignmentBackend
from twmd_registry.engine.pairs import check_segments, make_pairs
from twmd_registry.errors import InputError, ModelError
from twmd_registry.models.fitted import save
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec

CORPUS = ["the cat sat on the mat", "a dog ran over the hill", "the cat sat on the mat", "it", "we saw zebras again"]
PREDICTIONS = ["the cat ran", "a dog sat on the hill", "the cat ran", "it"]
REFERENCES = [["the cat sat", "a cat ran over the mat"], ["a dog sat"], ["we saw the cat", "the cat sat", "it"], ["it"]]


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


def weights_in(
    backend: TokenAlignmentBackend, predictions: list[str], references: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights that a run gives to hypotheses and references."""
    run = backend.run([backend], make_pairs(check_segments(predictions, references)), None)
    (fitted,) = run._views
    assert fitted.weights is not None
    return fitted.weights[0].numpy(), fitted.weights[1].numpy()


def changed(backend: TokenAlignmentBackend, **changes: Any) -> bytes:
    """Return a frequency file that is fitted on the corpus, with some of its entries changed."""
    fitted = json.loads(backend.fit_idf(CORPUS))
    return json.dumps(fitted | changes).encode()


def test_weight_is_the_log_inverse_document_frequency(backend: TokenAlignmentBackend, tmp_path: Path) -> None:
    path = save(FREQUENCIES, backend.fit_idf(CORPUS), tmp_path)
    found = find_idf(str(path), backend.model.tokenizer)
    np.testing.assert_allclose(found.content.weights, expected_weights(CORPUS), atol=1e-6)
    assert found.content.documents == len(CORPUS)


def test_special_tokens_get_weight_zero_and_unseen_tokens_the_largest(
    backend: TokenAlignmentBackend, tmp_path: Path
) -> None:
    weights = find_idf(
        str(save(FREQUENCIES, backend.fit_idf(CORPUS), tmp_path)), backend.model.tokenizer
    ).content.weights
    vocabulary = backend.model.tokenizer.get_vocab()
    assert weights[vocabulary["[CLS]"]] == weights[vocabulary["[SEP]"]] == 0
    assert weights[vocabulary["rain"]] == pytest.approx(math.log(len(CORPUS) + 1))
    assert weights[vocabulary["[UNK]"]] == pytest.approx(math.log((len(CORPUS) + 1) / 2))
    assert weights[vocabulary["the"]] == pytest.approx(math.log((len(CORPUS) + 1) / 4))


def test_repeated_text_counts_each_time_and_a_repeated_token_once(backend: TokenAlignmentBackend) -> None:
    vocabulary = backend.model.tokenizer.get_vocab()
    counts = json.loads(backend.fit_idf([*CORPUS, *CORPUS[:1]]))["counts"]
    assert counts[str(vocabulary["mat"])] == 3
    assert counts[str(vocabulary["the"])] == 4


def test_idf_corpus_counts_each_side_separately(backend: TokenAlignmentBackend) -> None:
    hypotheses, references = weights_in(make_backend(backend.files.folder, idf="corpus"), PREDICTIONS, REFERENCES)
    np.testing.assert_allclose(hypotheses, expected_weights(PREDICTIONS), atol=1e-6)
    np.testing.assert_allclose(
        references, expected_weights([text for texts in REFERENCES for text in texts]), atol=1e-6
    )
    assert not np.allclose(hypotheses, references)


def test_idf_references_gives_both_sides_the_weights_of_the_references(backend: TokenAlignmentBackend) -> None:
    hypotheses, references = weights_in(make_backend(backend.files.folder, idf="references"), PREDICTIONS, REFERENCES)
    wanted = expected_weights([text for texts in REFERENCES for text in texts])
    np.testing.assert_allclose(hypotheses, wanted, atol=1e-6)
    np.testing.assert_allclose(references, wanted, atol=1e-6)


def test_texts_are_counted_after_truncation(backend: TokenAlignmentBackend) -> None:
    long = ["the cat sat over the hill", "the dog"]
    hypotheses, _ = weights_in(make_backend(backend.files.folder, idf="corpus", truncation="cut:4"), long, long)
    np.testing.assert_allclose(hypotheses, expected_weights(["the cat", "the dog"]), atol=1e-6)
    whole, _ = weights_in(make_backend(backend.files.folder, idf="corpus", truncation="window:6/3"), long, long)
    np.testing.assert_allclose(whole, expected_weights(long), atol=1e-6)


def test_file_is_named_by_its_content_whatever_the_order_of_the_texts(
    backend: TokenAlignmentBackend, tmp_path: Path
) -> None:
    first, second = (save(FREQUENCIES, backend.fit_idf(corpus), tmp_path) for corpus in (CORPUS, CORPUS[::-1]))
    assert first == second
    found = find_idf(str(first), backend.model.tokenizer)
    assert first.name == f"idf-{found.hash}.json"
    assert save(FREQUENCIES, backend.fit_idf(CORPUS[:3]), tmp_path) != first


def test_empty_text_is_a_text_without_any_token(backend: TokenAlignmentBackend, tmp_path: Path) -> None:
    found = find_idf(
        str(save(FREQUENCIES, backend.fit_idf([*CORPUS, "", " "]), tmp_path)), backend.model.tokenizer
    ).content
    assert found.documents == len(CORPUS) + 2
    np.testing.assert_allclose(found.weights, expected_weights([*CORPUS, "", " "]), atol=1e-6)


def test_hash_is_found_in_twmd_home_and_the_signature_reproduces_the_scores(
    backend: TokenAlignmentBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    path = save(FREQUENCIES, backend.fit_idf(CORPUS), tmp_path / "home" / "idf")
    digest = find_idf(str(path), backend.model.tokenizer).hash
    keys: dict[str, Any] = {"model": str(backend.files.folder), "layer": 2, "centering": "none"}
    by_hash, by_file, none = (
        twmd_registry.scorer("moverscore", **keys, **more).score(PREDICTIONS, REFERENCES)
        for more in ({"idf": f"background:{digest}"}, {"idf": f"background:{path}"}, {})
    )
    assert by_hash == by_file
    assert by_hash.scores != none.scores
    signature = str(by_hash.signature)
    assert f"idf:background%3A{digest}" in signature
    again = twmd_registry.scorer(signature, model=str(backend.files.folder))
    assert again.score(PREDICTIONS, REFERENCES).scores == by_hash.scores
    away = path.rename(tmp_path / "elsewhere.json")
    with pytest.raises(ModelError, match=rf"document frequencies {digest} is not here: put idf-{digest}.json into"):
        twmd_registry.scorer(signature, model=str(backend.files.folder)).score(PREDICTIONS, REFERENCES)
    given = twmd_registry.scorer(signature, model=str(backend.files.folder), idf=away)
    assert given.score(PREDICTIONS, REFERENCES).scores == by_hash.scores


def test_file_whose_content_differs_from_the_signature_is_refused(
    backend: TokenAlignmentBackend, tmp_path: Path
) -> None:
    paths = [save(FREQUENCIES, backend.fit_idf(corpus), tmp_path) for corpus in (CORPUS, CORPUS[:2])]
    signed = twmd_registry.scorer(
        "moverscore", model=str(backend.files.folder), layer=2, centering="none", idf=f"background:{paths[0]}"
    )
    with pytest.raises(ModelError, match=r"holds the document frequencies .*, not .* as asked for"):
        twmd_registry.scorer(signed.signature, model=str(backend.files.folder), idf=paths[1]).score(["it"], ["it"])


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


def test_frequency_file_with_a_changed_byte_is_refused(
    backend: TokenAlignmentBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path))
    path = save(FREQUENCIES, backend.fit_idf(CORPUS), tmp_path / "idf")
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ModelError, match="does not hold what its name says"):
        find_idf(path.stem.removeprefix("idf-"), backend.model.tokenizer)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no json",
        b"[1, 2]",
        b"{}",
        b'{"counts": [1], "documents": 3, "tokenizer": "x"}',
        b'{"counts": {"a": 1}, "documents": 3, "tokenizer": "x"}',
        b'{"counts": {}, "documents": 3, "tokenizer": "/a/path"}',
        b"\xff\xfe",
    ],
)
def test_file_with_invalid_frequencies_is_refused(
    backend: TokenAlignmentBackend, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "odd.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"odd.json is not a file of document frequencies"):
        find_idf(str(tmp_path / "odd.json"), backend.model.tokenizer)


@pytest.mark.parametrize("counts", [{"4": 6}, {"4": -1}, {"4": 2, "5": 10**9}])
def test_count_above_the_number_of_texts_or_below_zero_is_refused(
    backend: TokenAlignmentBackend, tmp_path: Path, counts: dict[str, int]
) -> None:
    (tmp_path / "odd.json").write_bytes(changed(backend, counts=counts))
    with pytest.raises(
        ModelError, match=r"odd.json holds a token in more texts than there are \(5\), in fewer than none"
    ):
        find_idf(str(tmp_path / "odd.json"), backend.model.tokenizer)


@pytest.mark.parametrize(
    "change",
    [
        {"documents": -1},
        {"documents": "many"},
        {"documents": None},
        {"documents": 10**400},
        {"documents": 1 << 53},
        {"counts": {"4": 10**30}},
    ],
)
def test_numbers_that_cannot_be_counts_are_refused(
    backend: TokenAlignmentBackend, tmp_path: Path, change: dict[str, Any]
) -> None:
    (tmp_path / "odd.json").write_bytes(changed(backend, **change))
    with pytest.raises(ModelError, match=r"odd.json"):
        find_idf(str(tmp_path / "odd.json"), backend.model.tokenizer)


@pytest.mark.parametrize("change", [{"counts": {"4": 2.7}}, {"documents": 5.5}])
def test_numbers_that_are_not_whole_are_refused(
    backend: TokenAlignmentBackend, tmp_path: Path, change: dict[str, Any]
) -> None:
    (tmp_path / "odd.json").write_bytes(changed(backend, **change))
    with pytest.raises(ModelError, match=r"odd.json"):
        find_idf(str(tmp_path / "odd.json"), backend.model.tokenizer)


def test_ids_beyond_the_vocabulary_are_ignored(backend: TokenAlignmentBackend, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_bytes(changed(backend, counts={"4": 2, "999999999999": 1}))
    found = read_idf(tmp_path / "odd.json", vocabulary_size(backend.model.tokenizer))
    assert found.content.counts[4] == 2


@pytest.mark.parametrize("wanted", ["0123456789ab", "no/such/file.json", "nonsense"])
def test_missing_frequencies_are_refused(backend: TokenAlignmentBackend, wanted: str) -> None:
    with pytest.raises(ModelError, match="document frequencies .* is n"):
        find_idf(wanted, backend.model.tokenizer)


def test_corpus_without_text_is_refused(backend: TokenAlignmentBackend) -> None:
    with pytest.raises(InputError, match="every text is empty"):
        backend.fit_idf(["", " "])


def test_weights_are_never_negative() -> None:
    found = DocumentFrequencies(3, np.array([0, 1, 3])).weights
    assert found.tolist() == pytest.approx([math.log(4), math.log(2), 0.0])
