"""Packaged models, read directly: like transformers' network and tokenizer, without its imports."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.conftest import Texts
from twmd_registry.encode import encoder as encoder_module
from twmd_registry.encode.encoder import Encoder, find_blocks, hidden_states, tokenise
from twmd_registry.errors import ModelError
from twmd_registry.models.files import find_adapter, find_model
from twmd_registry.models.inference import exact_arithmetic
from twmd_registry.models.packaged import WORDS, Bert, embeddings_in_file, load_bert
from twmd_registry.registry.names import EMBEDDED_MODEL, MULTILINGUAL_MODEL

CPU = torch.device("cpu")
ODD = ["", "\u0301 na\u00efve", "\u6211\u4eec \U0001f642", "x" * 300, "[MASK] <mask> [UNK]", "long " * 600]


@pytest.fixture
def _tokenizers_stay_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a model's tokenizers once for all encoders, because 250,000 pieces take seconds."""
    for name in ("load_tokenizer", "read_tokenizer"):
        monkeypatch.setattr(encoder_module, name, cache(getattr(encoder_module, name)))


BOTH = ("float32", "bfloat16")
CASES: dict[str, dict[str | None, tuple[str, ...]]] = {
    "embedded": {None: BOTH, "rated-twmd": BOTH[:1]},
    "multilingual": {"rated-multilingual": BOTH[:1]},
}


@pytest.mark.usefixtures("_tokenizers_stay_loaded")
@pytest.mark.parametrize("model", CASES)
def test_tokens_and_hidden_states_equal_transformers(model: str, texts: Texts) -> None:
    files, lines = find_model(model), [*texts.predictions[:6], *ODD]
    for adapter, dtype in ((adapter, dtype) for adapter, dtypes in CASES[model].items() for dtype in dtypes):
        added = find_adapter(adapter) if adapter else None
        direct, original = Encoder(files, added, dtype, CPU), Encoder(files, added, dtype, CPU, trainable=True)
        assert isinstance(direct.network, Bert)
        assert not isinstance(original.network, Bert)
        assert direct.limit == original.limit
        assert original.reading(range(direct.depth + 1)).pads, "which is taken for granted of `Bert`"
        tokens, layers = tokenise(direct.tokenizer, lines, direct.limit), [0, 2, direct.depth]
        with torch.inference_mode(), exact_arithmetic():
            states, expected = direct.encode(tokens, layers).layers, original.encode(tokens, layers).layers
        if dtype == "float32":  # oneDNN's GELU may differ in the last bit on a CPU without AVX-512
            torch.testing.assert_close(states, expected, rtol=0, atol=1e-5)
            exact = states
        for k in layers:  # bfloat16 is rounded elsewhere, no more than there; at the top, one odd text decides
            own_error, error = ((found[k] - exact[k]).norm() for found in (states, expected))
            assert dtype == "float32" or own_error <= (1.5 if k == direct.depth else 1) * error
    for one, other in zip(tokens, tokenise(original.tokenizer, lines, direct.limit), strict=True):
        assert [array.tolist() for array in one[:3]] == [array.tolist() for array in other[:3]]
        assert one[3:] == other[3:]
    assert direct.tokenizer.get_vocab() == original.tokenizer.get_vocab()
    ids = np.concatenate([text.ids for text in tokens]).tolist()
    assert direct.tokenizer.convert_ids_to_tokens(ids) == original.tokenizer.convert_ids_to_tokens(ids)


def test_adapter_of_another_model_is_refused() -> None:
    with pytest.raises(
        ModelError,
        match=f"^adapter .* was made for {MULTILINGUAL_MODEL}, not for {EMBEDDED_MODEL}: it does not fit this model.$",
    ):
        load_bert(find_model("embedded"), find_adapter("rated-multilingual"), "float32")


def test_users_own_adapter_is_loaded_by_peft(tmp_path: Path) -> None:
    for path in find_adapter("rated-twmd").folder.glob("adapter_*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    files = find_model("embedded")
    encoder = Encoder(files, find_adapter(str(tmp_path)), "float32", CPU)
    assert not isinstance(encoder.network, Bert)
    name = "encoder.layer.5.output.dense.weight"
    merged = load_bert(files, find_adapter("rated-twmd"), "float32").state_dict()[name]
    assert torch.equal(encoder.network.state_dict()[name], merged)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a file with word embeddings between other weights."""
    rows = torch.arange(12, dtype=torch.float32).reshape(4, 3)
    save_file({"a": torch.ones(5), WORDS: rows, "z": torch.ones(7)}, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("change", ["same size and time", "shorter", "replaced", "removed"])
def test_word_embeddings_with_another_hash_are_refused(table: Path, change: str) -> None:
    read_rows, content, before = embeddings_in_file(table, torch.float32), table.read_bytes(), table.stat()
    assert read_rows(torch.tensor([2])).tolist() == [[6, 7, 8]]
    if change in {"replaced", "removed"}:
        table.unlink()
    if change != "removed":
        row = struct.pack("<3f", 9, 10, 11)
        table.write_bytes(content[:-1] if change == "shorter" else content.replace(row, row[::-1]))
        os.utime(table, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ModelError, match="changed or removed"):
        read_rows(torch.tensor([2]))


@pytest.mark.skipif(sys.platform != "linux", reason="memory by file is Linux's")
def test_word_embeddings_are_memory_mapped() -> None:
    files = find_model("multilingual")
    network = load_bert(files, None, "float32")
    ids = torch.arange(0, 250_000, 500)[None]
    hidden_states(network, find_blocks(network), [2], {"input_ids": ids})
    listing = Path("/proc/self/smaps").read_text(encoding="utf-8")
    areas = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", listing, flags=re.MULTILINE)
    weights = str((files.folder / "model.safetensors").resolve())
    in_memory = sum(int(re.findall(r"Rss: +(\d+)", area)[0]) for area in areas if weights in area)
    assert in_memory < 30_000  # KB; word embeddings have 384,000


def test_packaged_models_score_without_large_libraries_or_random_numbers(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("it rains\n", encoding="utf-8")
    program = (
        "import random, sys, numpy, torch\nfrom twmd_registry.cli import main\n"
        "states = lambda: (random.getstate(), str(numpy.random.get_state()), torch.get_rng_state().tolist())\n"
        "before = states()\n"
        "for metric in ('twmd', 'twmd;preset=embedded', 'moverscore', 'sbert', 'stsscore'):\n"
        "    assert main(['score', 'texts.txt', '-i', 'texts.txt', 'texts.txt', '-m', metric]) == 0\n"
        "    assert states() == before, metric\n"
        "large = {'transformers', 'sentence_transformers', 'peft', 'datasets', 'sklearn', 'pandas', 'scipy.stats'}\n"
        "print('LOADED', sorted(large & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED []"
