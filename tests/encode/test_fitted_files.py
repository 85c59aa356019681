"""Document frequencies, mean vectors and stop words: fitting, reading, storage and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import twmd_registry
from tests import tiny
from tests.encode import vocabularies
from tests.oracles import movers
from twmd_registry.encode.encoder import tokenise
from twmd_registry.encode.idf import find_idf, idf_weights, read_idf, vocabulary_hash, vocabulary_size
from twmd_registry.encode.mean_vectors import MEAN_VECTOR, find_background, read_background
from twmd_registry.encode.words import find_stop_words
from twmd_registry.engine.token_backend import TokenAlignmentBackend
from twmd_registry.errors import InputError, ModelError
from twmd_registry.models.fitted import hash_of, save
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec

CORPUS = ["the cat sat on the mat", "a dog ran over the hill", "the cat sat on the mat", "it", "we saw zebras again"]


@pytest.fixture
def backend(bert: str) -> TokenAlignmentBackend:
    return TokenAlignmentBackend(make_spec("moverscore", model=bert, layer=2, centering="none"), RunOptions())


def changed(backend: TokenAlignmentBackend, **changes: Any) -> bytes:
    """Return a frequency file fitted on the corpus, with some entries changed."""
    return json.dumps(json.loads(backend.fit_idf(CORPUS).content) | changes).encode()


def test_weight_is_the_log_inverse_document_frequency_and_an_empty_text_a_document(
    backend: TokenAlignmentBackend, tmp_path: Path
) -> None:
    texts = [*CORPUS, "", " "]
    found = find_idf(str(backend.fit_idf(texts).save(tmp_path)), backend.model.tokenizer).content
    assert found[-1] == len(texts)
    rows = [tiny.tokenizer()(text)["input_ids"] for text in texts]
    expected = [movers.idf(rows, token) for token in range(len(tiny.WORDS) + 4)]
    np.testing.assert_allclose(idf_weights(found), expected, atol=1e-6)


def test_frequencies_of_another_tokenizer_are_refused(backend: TokenAlignmentBackend, tmp_path: Path) -> None:
    path = backend.fit_idf(CORPUS).save(tmp_path)
    other = vocabularies.word_level()
    assert vocabulary_hash(other) != vocabulary_hash(backend.model.tokenizer)
    with pytest.raises(ModelError, match=r"of another tokenizer .*: fit them with 'twmd fit idf'"):
        find_idf(str(path), other)


NO_FILE = r"odd.json is not a file of document frequencies"
TOO_MANY = "odd.json contains counts below 0 or above the number of texts"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no json", NO_FILE),
        (b'{"counts": [1], "documents": 3, "tokenizer": "x"}', NO_FILE),
        (b'{"counts": {}, "documents": 3, "tokenizer": "/a/path"}', NO_FILE),
        (b"\xff\xfe", NO_FILE),
        ({"counts": {"4": 6}}, TOO_MANY),
        ({"counts": {"4": -1}}, TOO_MANY),
        ({"counts": {"4": 2, "5": 10**9}}, TOO_MANY),
        ({"documents": -1}, TOO_MANY),
        ({"documents": 10**400}, NO_FILE),
    ],
)
def test_file_of_invalid_frequencies_is_refused(
    backend: TokenAlignmentBackend, tmp_path: Path, content: bytes | dict[str, Any], words: str
) -> None:
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


SENTENCES = ["the cat sat", "a dog ran over the hill", "the cat sat", " "]


def test_mean_vector_of_repeated_texts_averages_all_token_occurrences(
    backend: TokenAlignmentBackend, tmp_path: Path
) -> None:
    found = read_background(backend.fit_background(SENTENCES).save(tmp_path))
    with torch.inference_mode():
        encoder = backend.model
        tokens = tokenise(encoder.tokenizer, SENTENCES[:3], None)
        rows = [encoder.encode([text], [2]).layers[2].numpy() for text in tokens]
    expected = {
        "all": np.concatenate(rows).mean(0),
        "cls": np.concatenate([row[:-1] for row in rows]).mean(0),
        "none": np.concatenate([row[1:-1] for row in rows]).mean(0),
    }
    for policy, mean in expected.items():
        np.testing.assert_allclose(found.content[policy][2].numpy(), mean, atol=1e-6)
    assert found.content["none"].shape == (tiny.DEPTH + 1, tiny.WIDTH)
    assert (found.about["texts"], found.about["tokens"]) == (3, 12)


def test_mean_vector_file_with_nan_or_another_content_is_refused(
    backend: TokenAlignmentBackend, tmp_path: Path
) -> None:
    nan = backend.fit_background(SENTENCES).content[:-4] + np.float32(np.nan).tobytes()
    for content, words in ((nan, "not finite"), (b"something else", "not a mean-vector file")):
        with pytest.raises(ModelError, match=words):
            read_background(save(MEAN_VECTOR, content, tmp_path))


def test_mean_of_another_model_or_adapter_is_refused(tmp_path: Path, backend: TokenAlignmentBackend) -> None:
    path, model_hash = str(backend.fit_background(SENTENCES).save(tmp_path)), backend.files.fingerprint
    assert find_background(path, model_hash, None).about["adapter"] is None
    for fingerprint, adapter in (("0123456789ab", None), (model_hash, "some-adapter@0123456789ab")):
        with pytest.raises(ModelError, match=rf"adapter None, not on this model \(@{fingerprint}, adapter {adapter}\)"):
            find_background(path, fingerprint, adapter)


def test_background_centering_without_a_packaged_mean_raises_an_error_with_fit_mean(bert: str) -> None:
    with pytest.raises(ModelError, match="twmd fit mean"):
        twmd_registry.load("twmd", model=bert, layer=1, centering="background").score(["a"], ["a"])


def written(folder: Path, content: str | bytes, name: str = "words.txt") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_stop_list_has_one_word_per_line_and_is_named_by_its_sorted_words(tmp_path: Path) -> None:
    found, other = (find_stop_words(str(written(tmp_path, text))) for text in ("the\nof\nétait\n", "the\nof\nétai\n"))
    assert found.content == {"the", "of", "était"}
    assert found.hash == hash_of("of\nthe\nétait\n".encode()) != other.hash


@pytest.mark.parametrize(
    "content",
    [
        "THE\nAnd\nof",
        "the\r\nof\r\nand\r\n",
        "\ufeffthe\nof\nand\n",
    ],
)
def test_order_case_repetition_empty_lines_and_a_byte_order_mark_do_not_change_its_hash(
    tmp_path: Path, content: str
) -> None:
    assert find_stop_words(str(written(tmp_path, content))) == find_stop_words(
        str(written(tmp_path, "and\nof\nthe\n", "other.txt"))
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("the\nof the\n", "words.txt, line 2: expected one word per line"),
        ("\n\nthe\n\nas well\n", "words.txt, line 5: expected one word per line"),
        ("était\n".encode("latin-1"), "words.txt cannot be read as UTF-8"),
        ("\n \n", "the file contains no word"),
    ],
)
def test_unreadable_stop_list_is_refused(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        find_stop_words(str(written(tmp_path, content)))
