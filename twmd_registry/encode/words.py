"""Stop words, and the tokens that are dropped with their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twmd_registry.encode.encoder import tokenise
from twmd_registry.encode.pieces import Vocabulary
from twmd_registry.errors import ModelError
from twmd_registry.models.fitted import FittedKind, FittedPart, hash_of, locate, sha256_of
from twmd_registry.registry.names import Punctuation, StopwordUnit, Subwords
from twmd_registry.tensors import EncodedTexts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

STOP_WORDS = FittedKind("stop words", "stopwords", "stop", ".txt", "stopwords")
"""Files of stop words."""


def find_stop_words(name: str) -> FittedPart[frozenset[str]]:
    """Find a list by hash or path, and read it: one word per line, in any case.

    The hash is of its `canonical` form, so order, case and empty lines do not matter.

    Raises:
        ModelError: The file is missing, not UTF-8, without a word, or has several words on a line (names the line).
    """
    path = locate(STOP_WORDS, name, lambda content: hash_of(canonical(_read(content, f"stop-{name}.txt"))))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}.") from error
    words = _read(content, path.name)
    return FittedPart(words, sha256_of(canonical(words)), {})


def canonical(words: frozenset[str]) -> bytes:
    """Return the canonical form of a list: sorted, one word per line."""
    return "".join(f"{word}\n" for word in sorted(words)).encode()


def _read(content: bytes, name: str) -> frozenset[str]:
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ModelError(f"stop words {name} cannot be read as UTF-8: {error}.") from error
    for number, line in enumerate(lines, 1):
        if len(line.split()) > 1:
            raise ModelError(f"stop words {name}, line {number}: expected one word per line, got {line.strip():.40}.")
    words = frozenset(line.strip().lower() for line in lines if line.strip())
    if not words:
        raise ModelError(f"stop words {name}: the file contains no word; expected one word per line.")
    return words


Phrase = tuple[str, ...]
"""Consecutive words in lower case, nearly always one."""


def as_tokenized(
    words: frozenset[str], tokenizer: PreTrainedTokenizerFast, pieces: Vocabulary, unit: StopwordUnit = "word"
) -> frozenset[Phrase]:
    """Return words as a tokenizer reads them: normalised, and split like the tokenizer always splits them (``don '
    t``).

    With the unit ``piece`` they are unchanged, because MoverScore's authors compare them with pieces. An apostrophe
    stands for both ``'`` and ``\u2019``. A word with an out-of-vocabulary character is dropped, because no text
    contains its tokens.
    """
    if unit == "piece":
        return frozenset((word,) for word in words)
    phrases = set[Phrase]()
    forms = sorted({form for word in words for form in (word, word.replace("'", "\u2019"))})
    for text in tokenise(tokenizer, forms, limit=None):
        ids = text.ids[text.special == 0]
        if len(ids) and tokenizer.unk_token_id not in ids:
            numbers = pieces.words(ids, np.ones(len(ids), dtype=bool), np.zeros(1, dtype=np.int64))
            phrases.add(tuple(_texts(pieces, ids, numbers)))
    return frozenset(phrases)


def left_out(
    pieces: Vocabulary,
    ids: np.ndarray,
    ordinary: np.ndarray,
    lengths: np.ndarray,
    *,
    subwords: Subwords = "keep",
    punctuation: Punctuation = "keep",
    stop_words: frozenset[Phrase] = frozenset(),
    stopword_unit: StopwordUnit = "word",
) -> np.ndarray:
    """Return which tokens are left out, never special ones; shape (T,), bool.

    `ids` and `ordinary` are as for `Vocabulary.continuing`. `stop_words` (see `as_tokenized`) are left out with all
    their pieces, or with the unit ``piece`` as single pieces that start a word.
    """
    starts = (np.cumsum(lengths) - lengths)[lengths > 0]
    continuing = pieces.continuing(ids, ordinary, starts)
    gone = continuing.copy() if subwords == "drop" else np.zeros(len(ids), dtype=bool)
    if punctuation != "keep":
        marks = pieces.punctuation if punctuation == "drop" else pieces.ascii_punctuation
        gone |= marks[ids] & ordinary
    if stop_words and stopword_unit == "piece":
        single = np.arange(len(ids))
        gone |= _in_phrases(stop_words, _texts(pieces, ids, single), single, starts) & ordinary & ~continuing
    elif stop_words:
        words = pieces.words(ids, ordinary, starts)
        gone |= _in_phrases(stop_words, _texts(pieces, ids, words), words, starts) & ordinary
    return gone


MAX_COPIED = 0.5
"""Share of copies, among tokens that a translation would change, above which the whole text counts as a copy."""


def copied_tokens(
    pieces: Vocabulary, encoded: EncodedTexts, positions: np.ndarray, owners: np.ndarray, partner: np.ndarray
) -> np.ndarray:
    """Return the tokens that texts copy from their sources; shape (T,), bool.

    Words that a translation keeps do not count: names (with a capital letter), numbers and punctuation. If more than
    `MAX_COPIED` of the other tokens are copied, all tokens count as copied.

    `positions` are token positions among the encoded tokens, `owners` the indices of their texts, and `partner` the row
    of every text's source (-1 without one).
    """
    ids, lengths = encoded.ids.cpu().numpy(), encoded.lengths.cpu().numpy()
    ordinary = (encoded.special == 0).cpu().numpy()
    words = pieces.words(ids, ordinary, (np.cumsum(lengths) - lengths)[lengths > 0])
    distinct, numbers = np.unique(_spell(pieces, ids, words), return_inverse=True)
    kept = np.array([_is_kept(text) for text in distinct.tolist()], dtype=bool)
    word = np.where(ordinary & ~kept[numbers[words]], numbers[words], -1)  # of every token
    rows, size = np.repeat(np.arange(len(lengths)), lengths), len(distinct)
    has_word = word >= 0
    here = has_word[positions] & (partner[owners] >= 0)
    copied = here & np.isin(partner[owners] * size + word[positions], rows[has_word] * size + word[has_word])
    copies, candidates = (np.bincount(owners, weights=which, minlength=len(partner)) for which in (copied, here))
    return np.asarray(copied | ((copies > MAX_COPIED * candidates)[owners] & ordinary[positions]))


def _is_kept(word: str) -> bool:
    """Return whether a translation may keep a word unchanged."""
    return word[:1].isupper() or any(map(str.isnumeric, word)) or not any(map(str.isalpha, word))


def _texts(pieces: Vocabulary, ids: np.ndarray, words: np.ndarray) -> list[str]:
    """Return the text of every word in lower case."""
    return [word.lower() for word in _spell(pieces, ids, words)]


def _spell(pieces: Vocabulary, ids: np.ndarray, words: np.ndarray) -> list[str]:
    raw = [bytearray() for _ in range(int(words[-1]) + 1 if len(words) else 0)]
    for number, token in zip(words.tolist(), ids.tolist(), strict=True):
        raw[number] += pieces.raw[token]
    return [word.decode("utf-8", errors="replace").strip() for word in raw]


def _in_phrases(phrases: frozenset[Phrase], texts: list[str], words: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the tokens of words that are, or belong to, one of the phrases; phrases do not cross texts."""
    by_first: dict[str, list[Phrase]] = {}
    for phrase in phrases:
        by_first.setdefault(phrase[0], []).append(phrase)
    ends = np.append(words[starts[1:]], len(texts))
    stop = np.zeros(len(texts), dtype=bool)
    for number, text in enumerate(texts):
        for phrase in by_first.get(text, ()):
            end = number + len(phrase)
            if tuple(texts[number:end]) == phrase and end <= ends[np.searchsorted(ends, number, side="right")]:
                stop[number:end] = True
    return np.asarray(stop[words])
