"""Properties of a vocabulary's pieces: whether they start a word or are punctuation, and their text.

WordPiece marks pieces that continue a word (``##ing``). Byte-level BPE and SentencePiece mark pieces that start one
(``Ġthe``, ``▁the``). In the latter, punctuation and unspaced scripts have no mark inside ``(see`` or ``我们``. There a
piece that starts with a letter counts as a word, like ideographs in WordPiece, so dropping the rest of words does
not drop whole sentences.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import regex

from twmd_registry.errors import SpecError
from twmd_registry.models.vectors import unknown_token

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_IDEOGRAPH = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}ー]")
"""A character that may be a word, in scripts written without spaces."""
_UNSPACED = regex.compile(r"[[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]--\p{M}]", regex.V1)
"""A letter of other scripts written without spaces; a vowel sign may follow in the next piece."""
_LEAD_BYTES = range(0xE3, 0xEA)
"""First bytes of characters from U+3000 to U+9FFF, for pieces that contain only part of one."""


class Piece(NamedTuple):
    """An entry of a vocabulary: whether it opens or closes a word (see `Vocabulary`), its text and its bytes."""

    opens: bool
    closes: bool
    text: str
    raw: bytes


class Vocabulary(NamedTuple):
    """A vocabulary. Arrays are indexed by token id."""

    opens: np.ndarray  # Whether a piece always starts a word; bool
    closes: np.ndarray  # Whether the next piece starts a word; bool
    punctuation: np.ndarray  # Whether it is only punctuation; bool
    ascii_punctuation: np.ndarray  # Whether it is one character of ``string.punctuation``; bool
    blank: np.ndarray  # Whether it is a separate mark, which belongs to the next word; bool
    texts: list[str]  # Its text, without its mark
    raw: list[bytes]  # Its bytes; a word's bytes are its pieces' bytes, concatenated

    def continuing(self, ids: np.ndarray, ordinary: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return which tokens continue the word of the preceding token, or are a separate mark; shape (T,), bool.

        `ids` are the tokens of many texts in a row, `ordinary` is true for tokens that are not special, and `starts`
        are the first tokens of the texts that have any.
        """
        return np.asarray(ordinary & (~self._begins(ids, ordinary, starts) | self.blank[ids]))

    def words(self, ids: np.ndarray, ordinary: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return each token's word, numbered from 0; shape (T,). A lone mark belongs to the next word.

        Arguments are as for `continuing`.
        """
        marks = self.blank[ids] & ordinary
        after_mark = _after(marks)
        after_mark[starts] = False
        return np.asarray(np.cumsum(marks | (self._begins(ids, ordinary, starts) & ~after_mark)) - 1)

    def _begins(self, ids: np.ndarray, ordinary: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return which tokens start a word: marked ones, a text's first, and those after a word's end; (T,), bool."""
        begins = ~ordinary | self.opens[ids] | _after(~ordinary | self.closes[ids])
        begins[starts] = True
        return np.asarray(begins)


def _after(flags: np.ndarray) -> np.ndarray:
    """Return which positions follow a flag; shape (T,)."""
    return np.asarray(np.r_[np.zeros(min(1, len(flags)), dtype=bool), flags[:-1]])


def pieces_of(tokenizer: PreTrainedTokenizerFast) -> Vocabulary:
    """Return a tokenizer's vocabulary; raise SpecError if it marks words in an unknown way."""
    describe = _description(json.loads(tokenizer.backend_tokenizer.to_str()), type(tokenizer).__name__)
    vocabulary = tokenizer.get_vocab()
    size = max(vocabulary.values()) + 1
    described: list[Piece] = [Piece(opens=True, closes=True, text="", raw=b"")] * size
    for piece, number in vocabulary.items():
        described[number] = describe(piece)
    opens, closes, texts, raw = zip(*described, strict=True)
    return Vocabulary(
        opens=np.array(opens),
        closes=np.array(closes),
        punctuation=np.array([_is_punctuation(text) for text in texts]),
        ascii_punctuation=np.array([text in set(string.punctuation) for text in texts]),
        blank=np.array([not text for text in texts]),
        texts=list(texts),
        raw=list(raw),
    )


def _description(settings: dict[str, Any], name: str) -> Callable[[str], Piece]:
    """Return the function that describes the tokenizer's pieces."""
    model = settings["model"]
    around = json.dumps([settings.get(part) for part in ("normalizer", "pre_tokenizer", "decoder")], ensure_ascii=False)
    if model["type"] == "WordLevel":
        return lambda piece: _bare(piece, opens=True, closes=True)
    if prefix := model.get("continuing_subword_prefix"):
        return lambda piece: _bare(piece.removeprefix(prefix), opens=not piece.startswith(prefix))
    if suffix := model.get("end_of_word_suffix"):
        unknown = model.get("unk_token")
        return lambda piece: _bare(
            piece.removesuffix(suffix), opens=piece == unknown, closes=piece == unknown or piece.endswith(suffix)
        )
    if "ByteLevel" in around:
        from transformers.convert_slow_tokenizer import bytes_to_unicode

        byte_of = {character: byte for byte, character in bytes_to_unicode().items()}
        return lambda piece: _marked(bytes(byte_of.get(character, 0x3F) for character in piece))
    if "▁" in around:
        return _sentence_piece(unknown_token(model))
    known = "neither WordPiece, byte-level BPE nor SentencePiece"
    raise SpecError(f"cannot tell how the vocabulary of {name} marks words ({known}): leave words whole.")


def _bare(text: str, *, opens: bool = False, closes: bool = False) -> Piece:
    return Piece(opens, closes, text, text.encode())


def _sentence_piece(unknown: str | None) -> Callable[[str], Piece]:
    def describe(piece: str) -> Piece:
        if piece == unknown:
            return _bare(piece)  # it may replace part of a word
        if byte := re.fullmatch(r"<0x([0-9A-F]{2})>", piece):
            raw = bytes.fromhex(byte[1])
            return Piece(raw[0] in _LEAD_BYTES, closes=False, text=piece, raw=raw)
        return _marked(piece.replace("▁", " ").encode())

    return describe


def _marked(raw: bytes) -> Piece:
    """Return a piece of a vocabulary that marks word starts by a space."""
    text = raw.decode("utf-8", errors="replace").strip()
    if not text:
        return Piece(opens=False, closes=True, text="", raw=raw)
    part_of_ideograph = text.startswith("\ufffd") and raw.strip()[0] in _LEAD_BYTES
    opens = raw[:1].isspace() or part_of_ideograph or _is_single_word(text[0]) or bool(_UNSPACED.match(text))
    return Piece(opens, _is_single_word(text[-1]), text, raw)


def _is_single_word(character: str) -> bool:
    return _is_punctuation(character) or bool(_IDEOGRAPH.match(character))


def _is_punctuation(text: str) -> bool:
    return bool(text) and all(c in string.punctuation or unicodedata.category(c).startswith("P") for c in text)
