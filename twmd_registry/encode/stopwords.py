"""Lists of words that are left out."""

from __future__ import annotations

from twmd_registry.errors import ModelError
from twmd_registry.models.fitted import FittedKind, FittedPart, hash_of, locate

STOP_WORDS = FittedKind("stop words", "stopwords", "stop", ".txt", "stopwords")
"""Files of stop words."""


def find_stop_words(wanted: str) -> FittedPart[frozenset[str]]:
    """Find and read a list: one word per line.

    Args:
        wanted: Its hash or its path.

    Returns:
        The words in lower case. Their hash is that of the list as `canonical` writes it: order, case and empty lines of
        the file do not matter.

    Raises:
        ModelError: No such file, not UTF-8, without a word, or with a line of several words (names the line).
    """
    path = locate(STOP_WORDS, wanted, lambda content: hash_of(canonical(_read(content, f"stop-{wanted}.txt"))))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}.") from error
    words = _read(content, path.name)
    return FittedPart(words, hash_of(canonical(words)), {})


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
            raise ModelError(
                f"stop words {name}, line {number}: expected one word per line, got {line.strip()[:40]!r}."
            )
    words = frozenset(line.strip().lower() for line in lines if line.strip())
    if not words:
        raise ModelError(f"stop words {name}: there is no word in it.")
    return words
