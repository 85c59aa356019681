"""Static word vectors: tables in every format, folders, and out-of-vocabulary words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import Unigram, WordLevel
from tokenizers.pre_tokenizers import Metaspace, Whitespace

import twmd_registry
from tests.oracles import movers
from twmd_registry.engine.result import ScoreSet
from twmd_registry.errors import ModelError, SpecError, TwmdWarning
from twmd_registry.models.vectors import read_table

WORDS = ["the", "a", "cat", "dog", "sat", "mat", "on", "rain", ".", "we're"]
VECTORS = np.random.default_rng(5).normal(size=(len(WORDS), 6)).astype(np.float32)
LINES = "".join(f"{word} {' '.join(repr(float(x)) for x in row)}\n" for word, row in zip(WORDS, VECTORS, strict=True))


def glove(folder: Path) -> Path:
    path = folder / "glove.txt"
    path.write_text(LINES, encoding="utf-8")
    return path


def binary(end: bytes) -> bytes:
    rows = b"".join(word.encode() + b" " + row.tobytes() + end for word, row in zip(WORDS, VECTORS, strict=True))
    return f"{len(WORDS)} 6\n".encode() + rows


class KeyedVectors(NamedTuple):
    """A fake of gensim's class, with the attributes that are used."""

    index_to_key: list[str]
    vectors: np.ndarray


FORMATS = [LINES.encode(), f"{len(WORDS)} 6\n{LINES}".encode(), binary(b"\n"), binary(b""), None]
"""GloVe's format, word2vec's as text, and in binary with and without ends of lines; None for a saved folder."""


def wmd(one: str, other: str) -> float:
    """Exact transport between the words of two space-separated texts."""
    x, y = (np.array([VECTORS[WORDS.index(word)] for word in text.split()]) for text in (one, other))
    x, y = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, y))
    return 1 - movers.emd(1 - x @ y.T, np.ones(len(x)), np.ones(len(y)))


def score(model: Path, predictions: list[str], references: list[str], **keys: Any) -> ScoreSet:
    return twmd_registry.score(predictions, references, "moverscore", "wmd", model=model, **keys)


@pytest.mark.parametrize("content", FORMATS)
def test_every_format_yields_the_word_movers_distance_score(content: bytes | None, tmp_path: Path) -> None:
    model = tmp_path / "vectors"
    if content is None:
        twmd_registry.save_vectors(KeyedVectors(WORDS, VECTORS.astype(np.float64)), model)
    else:
        model.write_bytes(content)
    found = score(model, ["The cat sat on a mat.", "We're a dog"], ["a dog", "the rain"])
    expected = wmd("the cat sat on a mat .", "a dog"), wmd("we're a dog", "the rain")
    assert found.scores == pytest.approx(expected, abs=1e-6)
    assert found.counts.oov == 0


def test_words_without_a_vector_are_left_out_and_reported(tmp_path: Path) -> None:
    texts = ["the purple cat", "zebra", "zebra", "the purple cat"], ["a dog sang", "zebra", "gnu", "a dog"]
    words = r"words without a vector, left out: 4 in distinct texts, 4 distinct \('purple', "
    with pytest.warns(TwmdWarning, match=words):
        found = score(glove(tmp_path), *texts, unknown="keep")
    assert found.scores == pytest.approx((wmd("the cat", "a dog"), 1, 0, wmd("the cat", "a dog")), abs=1e-6)
    assert (found.counts.oov, found.counts.unknown) == (4, 0)
    assert "unknown" not in str(found.signature)


def test_word_without_a_vector_does_not_change_the_mean(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"model": glove(tmp_path), "layer": 0, "centering": "batch"}
    with pytest.warns(TwmdWarning, match="without a vector"):
        with_it = twmd_registry.load("twmd", **keys).score(["the cat wobbled", "a dog"], ["a cat", "rain"])
    assert with_it.scores == twmd_registry.load("twmd", **keys).score(["the cat", "a dog"], ["a cat", "rain"]).scores


def test_case_matters_if_the_table_has_capitals(tmp_path: Path) -> None:
    path = tmp_path / "cased.txt"
    path.write_text("Rain 1 0\nrain 0 1\nsnow 0.6 0.8\n", encoding="utf-8")
    found = score(path, ["Rain", "rain"], ["snow", "snow"])
    assert found.scores == pytest.approx((0.6, 0.8))


def test_words_may_contain_spaces_and_repeat(tmp_path: Path) -> None:
    path = tmp_path / "spaced.vec"
    path.write_text("2 2\nnew york 0.5 1\nrain 1 2\n", encoding="utf-8")
    assert read_table(path)[0] == ["new york", "rain"]
    path = tmp_path / "glove.txt"
    path.write_text("a 1 2\n. . . 3 4\na 5 6\n", encoding="utf-8")
    words, rows = read_table(path)
    assert words == ["a", ". . ."]
    np.testing.assert_array_equal(rows, [[0, 0], [1, 2], [3, 4]])


UNIGRAM = ["[UNK]", *(f"\u2581{word}" for word in WORDS), "s"]


def static_folder(folder: Path, tensors: dict[str, torch.Tensor], pieces: list[str] = UNIGRAM) -> Path:
    """Return a folder of static vectors of words, or of pieces of words as model2vec makes them of SentencePiece."""
    tokenizer = Tokenizer(WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    if pieces is UNIGRAM:
        tokenizer = Tokenizer(Unigram([(piece, -float(i)) for i, piece in enumerate(pieces)], unk_id=0))
        tokenizer.pre_tokenizer = Metaspace()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(tensors, folder / "model.safetensors")
    return folder


ROWS = torch.cat([torch.ones(1, 6), torch.from_numpy(VECTORS)])
ORDER = torch.randperm(len(ROWS), generator=torch.Generator().manual_seed(1))
MAPPED = {"embeddings": ROWS[ORDER].contiguous(), "mapping": torch.argsort(ORDER)}
MAPPED["weights"] = torch.linspace(0.5, 2, len(ROWS), dtype=torch.float64)
PIECES = torch.cat([ROWS, torch.full((1, 6), 0.5)])


@pytest.mark.parametrize("tensors", [{"embedding.weight": ROWS}, {"embeddings": ROWS}, MAPPED])
def test_folders_of_static_vectors_are_read_token_by_token(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "model2vec"}), encoding="utf-8")
    folder = static_folder(tmp_path, tensors, ["[UNK]", *WORDS])
    found = score(folder, ["the cat sat"], ["a dog"])
    assert found.scores == pytest.approx((wmd("the cat sat", "a dog"),), abs=1e-6)


def test_signature_identifies_the_table_and_recreates_the_scorer(tmp_path: Path) -> None:
    path = glove(tmp_path)
    found = score(path, ["the cat"], ["a dog"])
    text = str(found.signature)
    assert "|model:./glove.txt@" in text
    assert twmd_registry.load(text, model=str(path)).score(["the cat"], ["a dog"]).scores == found.scores
    with pytest.raises(ModelError, match="name your copy of the model"):
        twmd_registry.load(text).score(["the cat"], ["a dog"])
    path.write_text(LINES.replace("cat", "cow"), encoding="utf-8")
    with pytest.raises(ModelError, match="has the content @"):
        twmd_registry.load(text, model=str(path)).score(["the cat"], ["a dog"])
    with pytest.raises(ModelError, match="has changed since: score the texts again"):
        found.explain(0)


def test_unusable_word_vectors_are_refused(tmp_path: Path) -> None:
    for wrong, words in (
        (KeyedVectors(["a"], np.array([[np.nan]])), "not finite"),
        (3, "expected gensim's KeyedVectors"),
    ):
        with pytest.raises(ModelError, match=words):
            twmd_registry.save_vectors(wrong, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ModelError, match="contains static word vectors: stsscore needs a regression model"):
        twmd_registry.load("stsscore", model=glove(tmp_path)).score(["the"], ["the"])
    with pytest.raises(SpecError, match="has hidden states 0 to 0"):
        twmd_registry.load("twmd", model=glove(tmp_path), layer=1).score(["the"], ["the"])


UNEVEN = "expected a word and 2 numbers, with one space between them"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("the 0.1 0.2\ncat 0.1\n", f"line 2: {UNEVEN}"),
        ("the 0.1 0.2\ncat 0.1 nan\n", "line 2: a number that is not finite"),
        ("2 2\nthe 1 2\ncat 1 2 3\n", f"line 3: {UNEVEN}"),
        ("the\t0.1 0.2\n", "line 1: expected a word and 1 numbers"),
        ("\n \n", "contains no word"),
        ("3 2\nthe 0.1 0.2\ncat 0.1 0.3\n", "declares 3 words in its first line but has 2"),
        (binary(b"") + b"more", "there is more after its 10 words"),
        (binary(b"")[:100], "word 4 of 10: the file ends here"),
        (binary(b"")[:-4] + np.float32(np.inf).tobytes(), "word 10 of 10: a number that is not finite"),
        (b"\x80\x04nothing good", "is a pickle"),
    ],
)
def test_damaged_table_is_refused_with_its_line_or_word(content: str | bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ModelError) as caught:
        score(path, ["the"], ["the"])
    assert words in str(caught.value)


def test_folders_with_pieces_of_words_are_read_piece_by_piece(tmp_path: Path) -> None:
    folder = static_folder(tmp_path, {"embeddings": PIECES})
    with pytest.warns(TwmdWarning, match="without a vector"):
        found = score(folder, ["the cats", "a \u4e2d cat"], ["a dogs", "the dog"], subwords="drop")
    assert found.scores == pytest.approx((wmd("the cat", "a dog"), wmd("a cat", "the dog")), abs=1e-6)
    assert found.counts.oov == 1


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"embeddings": torch.ones(5)}, r"its tensors \(embeddings \(5,\)\) do not fit a vocabulary of 12"),
        ({"weights": torch.ones(3)}, "do not fit a vocabulary of 12"),
        ({"mapping": torch.full((12,), -1)}, "do not fit a vocabulary of 12"),
        ({"embeddings": torch.full((12, 6), torch.nan)}, "contains vectors that are not finite"),
        (b"x" * 20, "has no config.json"),
        ("{}", "cannot be loaded"),
    ],
)
def test_damaged_folder_is_refused(damage: dict[str, torch.Tensor] | bytes | str, words: str, tmp_path: Path) -> None:
    folder = static_folder(tmp_path, {"embeddings": PIECES} | (damage if isinstance(damage, dict) else {}))
    if isinstance(damage, bytes):
        (folder / "model.safetensors").write_bytes(damage)
    elif isinstance(damage, str):
        (folder / "tokenizer.json").write_text(damage, encoding="utf-8")
    with pytest.raises(ModelError, match=words):
        score(folder, ["the"], ["the"])
