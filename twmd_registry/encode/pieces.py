"""What the pieces of a vocabulary are: which begin a word, which are punctuation, how they read.

WordPiece marks pieces that continue a word (``##ing``), byte-level BPE and SentencePiece those that begin one (``Ġthe``,
``▁the``). In the latter, punctuation and ideographs stand without a mark inside ``(see`` or ``我们``; they count as words of
their own, as they do in WordPiece, so that dropping the rest of words does not drop whole sentences.
"""

from __future__ import annotations

import json
import string
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twmd_registry.errors import SpecError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_WORDLESS = ((0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
"""Ranges of kana and ideographs, which are written without spaces."""
_LEAD_BYTES = range(0xE3, 0xEA)
"""First bytes of characters between U+3000 and U+9FFF, where a piece holds a part of one only."""


class Piece(NamedTuple):
    """One entry of a vocabulary.

    Attributes:
        opens: Whether it begins a word wherever it stands.
        closes: Whether what follows begins a word.
        text: How it reads, without its mark.
    """

    opens: bool
    closes: bool
    text: str


class Pieces(NamedTuple):
    """A vocabulary; arrays over token ids.

    Attributes:
        opens: As in `Piece`; bool.
        closes: As in `Piece`; bool.
        punctuation: Whether it consists of punctuation alone; bool.
        blank: Whether it is a mark alone, which belongs to the word that follows; bool.
        texts: As in `Piece`.
    """

    opens: np.ndarray
    closes: np.ndarray
    punctuation: np.ndarray
    blank: np.ndarray
    texts: list[str]

    def continuing(self, ids: np.ndarray, own: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Which tokens continue the word of the token before them; shape (T,), bool.

        Args:
            ids: Token ids of many texts in a row; shape (T,).
            own: Which are no special tokens; shape (T,), bool.
            starts: Where each text begins; a text may have no token.
        """
        if not len(ids):
            return own
        first = np.zeros(len(ids), dtype=bool)
        first[starts] = True
        # The first token of a text needs no mark to begin a word; nor does one that follows a word's end.
        begins = self.opens[ids] | first | np.r_[True, ~own[:-1]] | np.r_[False, self.closes[ids[:-1]]]
        return np.asarray(own & (~begins | self.blank[ids]))


def pieces_of(tokenizer: PreTrainedTokenizerFast) -> Pieces:
    """Describe a tokenizer's vocabulary.

    Raises:
        SpecError: It marks words in a way that is not known here.
    """
    describe = _description(json.loads(tokenizer.backend_tokenizer.to_str()), type(tokenizer).__name__)
    vocabulary = tokenizer.get_vocab()
    size = max(vocabulary.values()) + 1
    found = [Piece(opens=True, closes=True, text="")] * size
    for piece, number in vocabulary.items():
        found[number] = describe(piece)
    return Pieces(
        opens=np.array([piece.opens for piece in found]),
        closes=np.array([piece.closes for piece in found]),
        punctuation=np.array([_is_punctuation(piece.text) for piece in found]),
        blank=np.array([not piece.text for piece in found]),
        texts=[piece.text for piece in found],
    )


def _description(settings: dict[str, Any], name: str) -> Callable[[str], Piece]:
    """How this tokenizer's pieces are read."""
    model = settings["model"]
    around = json.dumps([settings.get(part) for part in ("normalizer", "pre_tokenizer", "decoder")], ensure_ascii=False)
    if model["type"] == "WordLevel":
        return lambda piece: Piece(opens=True, closes=True, text=piece)
    if prefix := model.get("continuing_subword_prefix"):
        return lambda piece: Piece(opens=not piece.startswith(prefix), closes=False, text=piece.removeprefix(prefix))
    if suffix := model.get("end_of_word_suffix"):
        return lambda piece: Piece(opens=False, closes=piece.endswith(suffix), text=piece.removesuffix(suffix))
    if "ByteLevel" in around:
        return _byte_level()
    if "▁" in around:
        return lambda piece: _marked(marked=piece.startswith("▁"), text=piece.replace("▁", " ").strip())
    raise SpecError(f"cannot tell how the vocabulary of {name} marks words (neither WordPiece, byte-level BPE nor SentencePiece): leave words whole.")


def _byte_level() -> Callable[[str], Piece]:
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    byte_of = {character: byte for byte, character in bytes_to_unicode().items()}

    def describe(piece: str) -> Piece:
        raw = bytes(byte_of.get(character, 0x3F) for character in piece)
        found = _marked(marked=raw[:1].isspace(), text=raw.decode("utf-8", errors="replace").strip())
        part_of_ideograph = found.text.startswith("\ufffd") and raw.strip()[0] in _LEAD_BYTES
        return found._replace(opens=found.opens or part_of_ideograph)

    return describe


def _marked(*, marked: bool, text: str) -> Piece:
    """A piece of a vocabulary that marks where words begin."""
    if not text:
        return Piece(opens=False, closes=True, text="")
    return Piece(opens=marked or _stands_alone(text[0]), closes=_stands_alone(text[-1]), text=text)


def _stands_alone(character: str) -> bool:
    return _is_punctuation(character) or any(low <= ord(character) <= high for low, high in _WORDLESS)


def _is_punctuation(text: str) -> bool:
    return bool(text) and all(c in string.punctuation or unicodedata.category(c).startswith("P") for c in text)
