"""Static word vectors as a model: tables of word2vec and GloVe, folders of ``StaticEmbedding`` and model2vec."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twmd_registry.errors import FileError, ModelError, check_types
from twmd_registry.models.files import ModelFiles, is_static_folder, reading
from twmd_registry.registry.paths import write_file

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

UNKNOWN = "[UNK]"
WORD = "\\w+(['\u2019]\\w+)*|[^\\w\\s]"
"""Pattern of a word: letters and digits, with apostrophes inside, or one other character."""
_LONGEST_LINE = 1 << 22
"""Maximum bytes of a line; a longer one is invalid."""
_HEADER = re.compile(rb"(?:\xef\xbb\xbf)?([0-9]{1,9}) ([0-9]{1,5})[ \t\r]*\n")


class WordTable(NamedTuple):
    """Words and their vectors. Row 0, of zeros, is for unknown words; shape (words + 1, D), float32."""

    words: list[str]
    rows: np.ndarray


def is_static(files: ModelFiles) -> bool:
    """Return whether a model is a table or a folder of static word vectors."""
    return files.folder.is_file() or is_static_folder(files.folder)


def load_static(files: ModelFiles, dtype: str) -> tuple[Any, PreTrainedTokenizerFast]:
    """Load a table or a folder of static vectors as a network without layers, and its tokenizer."""
    import torch

    with reading(files):
        if is_static_folder(files.folder):
            tokenizer, vectors = _read_folder(files.folder, files.label)
        else:
            words, rows = read_table(files.folder)
            tokenizer, vectors = word_tokenizer(words), torch.from_numpy(rows)
    if not bool(torch.isfinite(vectors).all()):
        raise ModelError(f"model {files.label} contains vectors that are not finite.")
    return _network(vectors.to(getattr(torch, dtype))), _wrapped(tokenizer)


def _network(vectors: torch.Tensor) -> Any:
    """Return a network with a row per token, independent of its neighbours, as its only hidden state 0."""
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    network: Any = torch.nn.Embedding.from_pretrained(vectors)  # type: ignore[no-untyped-call]
    network.config = SimpleNamespace(hidden_size=vectors.shape[1], num_hidden_layers=0)
    network.register_forward_pre_hook(lambda _module, _args, inputs: ((inputs["input_ids"],), {}), with_kwargs=True)
    network.register_forward_hook(lambda _module, _ids, rows: BaseModelOutput(rows, hidden_states=(rows,)))
    return network.eval()


def word_tokenizer(words: list[str]) -> Tokenizer:
    """Return a tokenizer for known words; id 0 is any other word."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    numbers = {UNKNOWN: 0} | {word: i for i, word in enumerate(words, 1)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=UNKNOWN))
    if not any(word != word.lower() for word in words):
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)
    return tokenizer


def _wrapped(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """Wrap a tokenizer like transformers' tokenizers, without special tokens, which static vectors lack."""
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    tokenizer.post_processor = TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    unknown = unknown_token(json.loads(tokenizer.to_str())["model"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=unknown)


def unknown_token(model: dict[str, Any]) -> str | None:
    """Return the token for out-of-vocabulary strings, given the ``model`` of a ``tokenizer.json``."""
    if model.get("unk_id") is not None:
        return str(model["vocab"][model["unk_id"]][0])
    return model.get("unk_token")


def _read_folder(folder: Path, label: str) -> tuple[Tokenizer, torch.Tensor]:
    """Return the tokenizer and the rows by token id of a ``StaticEmbedding`` or model2vec folder."""
    import torch
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    try:
        tensors = load_file(folder / "model.safetensors")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers raises nothing more specific
        raise ModelError(f"model {label} cannot be loaded: {error}") from error
    rows = (tensors["embedding.weight"] if "embedding.weight" in tensors else tensors["embeddings"]).to(torch.float32)
    size = max(tokenizer.get_vocab().values()) + 1
    mapping = tensors.get("mapping", torch.arange(len(rows))).to(torch.int64)
    weights = tensors.get("weights", torch.ones(len(mapping), dtype=torch.float32)).to(torch.float32)
    fits = rows.dim() == 2 and mapping.dim() == 1 and weights.shape == mapping.shape and len(mapping) >= size
    if not fits or not bool(((mapping >= 0) & (mapping < len(rows))).all()):
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items())
        raise ModelError(f"model {label}: its tensors ({shapes}) do not fit a vocabulary of {size}.")
    return tokenizer, rows[mapping] * weights[:, None]


def read_table(path: Path) -> WordTable:
    """Read a word-vector table in word2vec's text or binary format, fastText's or GloVe's text format.

    A repeated word keeps its first vector. Raises ModelError, with the line or word.
    """
    try:
        with path.open("rb") as file:
            head = file.read(1 << 16)
    except OSError as error:
        raise ModelError(f"cannot read {path.name}: {error.strerror}.") from error
    if head[:1] == b"\x80":
        raise ModelError(f"{path.name} is a pickle, which is never loaded: save its vectors by save_vectors().")
    header = _HEADER.match(head)
    if header is not None and not _is_text(head[header.end() :], int(header[2])):
        return _collect(path, _binary(path, header), int(header[1]))
    return _collect(path, _text(path, header), None if header is None else int(header[1]))


def _is_text(body: bytes, width: int) -> bool:
    """Return whether the content after a header starts with a line of a word and numbers."""
    line = body.lstrip(b"\r\n").partition(b"\n")[0]
    return len(line.split()) > 1 and all(_is_number(part) for part in line.split()[1:][-width:])


def _is_number(part: bytes | str) -> bool:
    try:
        float(part)
    except ValueError:
        return False
    return True


def _collect(path: Path, entries: Iterator[tuple[str, np.ndarray]], announced: int | None) -> WordTable:
    """Return all entries in one array, so a large table is in memory only once."""
    words: dict[str, None] = {}
    numbers, read = array("f"), 0
    for word, vector in entries:
        if not words:
            numbers.frombytes(bytes(vector.nbytes))  # row 0
        if word not in words:
            words[word] = None
            numbers.frombytes(vector.tobytes())
        read += 1
    if not words:
        raise ModelError(f"{path.name} contains no word: expected lines of a word and its numbers.")
    if announced is not None and read != announced:
        raise ModelError(f"{path.name} declares {announced} words in its first line but has {read}: was it cut off?")
    return WordTable(list(words), np.frombuffer(numbers, dtype=np.float32).reshape(len(words) + 1, -1))


def _text(path: Path, header: re.Match[bytes] | None) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the word and the numbers of every line. A word may contain spaces, as in GloVe."""
    width = 0 if header is None else int(header[2])
    with path.open("rb") as file:
        for number, raw in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), 1):
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace").rstrip()
            if not line or (header is not None and number == 1):
                continue
            width = width or max(1, len(line.split(" ")) - 1)
            word, *numbers = line.rsplit(" ", width)
            behind = word.split(" ")[1:]
            is_row = word and len(numbers) == width and not (behind and all(map(_is_number, behind)))
            if not is_row or "\t" in line or not all(map(_is_number, numbers)):
                expected = f"expected a word and {width} numbers, with one space between them"
                raise ModelError(f"{path.name}, line {number}: {expected}, as in all lines.")
            with np.errstate(over="ignore"):  # numbers that are too large are refused below
                vector = np.array(numbers, dtype=np.float32)
            yield word, _finite(vector, f"{path.name}, line {number}")


def _binary(path: Path, header: re.Match[bytes]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield every word, stored as bytes followed by a space, and its numbers in float32."""
    words, width = int(header[1]), int(header[2])
    with path.open("rb") as file:
        file.seek(header.end())
        for number in range(1, words + 1):
            where = f"{path.name}, word {number} of {words}"
            word = bytearray()
            while (byte := file.read(1)) not in (b" ", b""):
                word += byte
            numbers = file.read(4 * width)
            if len(numbers) != 4 * width or not word.strip():
                raise ModelError(f"{where}: the file ends here, or has no word: expected {width} numbers per word.")
            vector = _finite(np.frombuffer(numbers, dtype="<f4").astype(np.float32), where)
            yield word.strip().decode("utf-8", errors="replace"), vector
        if file.read().strip():
            raise ModelError(f"{path.name}: there is more after its {words} words of {width} numbers.")


def _finite(vector: np.ndarray, where: str) -> np.ndarray:
    if not np.isfinite(vector).all():
        raise ModelError(f"{where}: a number that is not finite.")
    return vector


@check_types(folder=str | PathLike)
def save_vectors(vectors: Any, folder: str | Path) -> Path:
    """Save word vectors as a folder that is a model here, and a ``StaticEmbedding`` for sentence-transformers.

    Args:
        vectors: A ``gensim`` ``KeyedVectors`` (anything with ``index_to_key`` and ``vectors``), or the path of a table.
        folder: Output folder, created if it does not exist. Other files in it are kept.

    Returns:
        The folder: ``model=FOLDER``, with ``layer=0``.

    Raises:
        ModelError: The table cannot be read, or has numbers that are not finite.
        FileError: The folder cannot be written.
    """
    import torch
    from safetensors.torch import save

    if folder == "":
        raise FileError("the name of the folder is empty: expected a folder to write.")
    if hasattr(vectors, "index_to_key"):
        words, rows = list(vectors.index_to_key), np.asarray(vectors.vectors, dtype=np.float32)
        rows = np.concatenate([np.zeros((1, rows.shape[1]), dtype=np.float32), _finite(rows, "these vectors")])
    elif isinstance(vectors, str | PathLike):
        words, rows = read_table(Path(vectors))
    else:
        raise ModelError(f"expected gensim's KeyedVectors or the path of a table, not {type(vectors).__name__}.")
    content = {
        "tokenizer.json": word_tokenizer(words).to_str().encode(),
        "model.safetensors": save({"embedding.weight": torch.from_numpy(rows)}),
    }
    for name, written in content.items():
        write_file(Path(folder) / name, written)
    return Path(folder)
