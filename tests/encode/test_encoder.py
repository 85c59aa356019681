"""Encoders: vectors equal the library's, padding has no effect, long texts are read in windows."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from transformers import CONFIG_MAPPING, AutoConfig, AutoModel, BertConfig, BertForSequenceClassification, BertModel

import twmd_registry
from tests import tiny
from tests.architectures import ARCHITECTURES, REFUSED, UNPADDED
from twmd_registry.encode import encoder as encoder_module
from twmd_registry.encode.encoder import Encoder, hidden_states, split_into_windows, tokenise
from twmd_registry.errors import ModelError, SpecError
from twmd_registry.models.files import find_model
from twmd_registry.tensors import EncodedTexts, TextTokens

Folder = Callable[[str], Path]
LONG = " ".join(["the cat sat on the mat and a dog ran over the hill in rain"] * 9)
SENTENCES = ["the cat sat", "a dog ran over the hill in the rain .", "it", "we saw the cat again today , and the dog"]


def load(folder: Path | str) -> Encoder:
    return Encoder(find_model(str(folder)), None, "float32", torch.device("cpu"))


def encode(encoder: Encoder, texts: list[str], layers: list[int], batch_tokens: int = 1000) -> EncodedTexts:
    with torch.inference_mode():
        return encoder.encode(tokenise(encoder.tokenizer, texts, encoder.limit), layers, batch_tokens=batch_tokens)


@pytest.fixture
def encoder(bert: str) -> Encoder:
    return load(bert)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_layers_above_the_highest_one_needed_never_run_and_no_hooks_stay(family: str, tiny_encoder: Folder) -> None:
    encoder = load(tiny_encoder(family))
    ran: list[int] = []
    assert encoder.blocks is not None
    for number, block in enumerate(encoder.blocks):
        block.register_forward_hook(lambda *_, number=number: ran.append(number))
    encode(encoder, SENTENCES[:1], [1])
    assert ran == [0]
    ran.clear()
    encode(encoder, SENTENCES[:1], [tiny.DEPTH])
    assert ran == list(range(tiny.DEPTH))
    assert not any(block._forward_pre_hooks for block in encoder.blocks)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_length_limit_falls_back_to_the_networks(family: str, tiny_encoder: Folder) -> None:
    encoder = load(tiny_encoder(family))
    assert encoder.limit == tiny.POSITIONS
    long = " ".join(["cat"] * 100)
    tokens = tokenise(encoder.tokenizer, [long, "cat"], encoder.limit)
    assert [text.truncated for text in tokens] == [True, False]
    assert (len(tokens[0].ids), tokens[0].ids[0], tokens[0].ids[-1]) == (tiny.POSITIONS, 0, 2)
    assert encode(encoder, [long], [1]).lengths.tolist() == [tiny.POSITIONS]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("no memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_too_large_batch_is_halved_until_it_fits(
    error: Exception, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = encode(encoder, SENTENCES, [2])
    sizes: list[int] = []
    real = hidden_states

    def scarce(*arguments: Any) -> dict[int, torch.Tensor]:
        sizes.append(len(arguments[3]["input_ids"]))
        if sizes[-1] > 1:
            raise error
        return real(*arguments)

    monkeypatch.setattr(encoder_module, "hidden_states", scarce)
    found = encode(encoder, SENTENCES, [2])
    assert sizes == [4, 2, 1, 1, 1, 1]
    torch.testing.assert_close(found.layers[2], expected.layers[2], atol=2e-6, rtol=0)


def test_text_that_does_not_fit_raises_one_clear_error(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_module, "hidden_states", Mock(side_effect=torch.OutOfMemoryError("no memory")))
    with pytest.raises(ModelError, match="out of memory with a single text of 5 tokens"):
        encode(encoder, SENTENCES[:1], [2])


def own_states(network: Any, tokens: TextTokens) -> list[torch.Tensor]:
    """Return what the library's network gives of a text alone, without padding that it adds (and Pegasus-X's globals);
    of a copy, for BigBird keeps the attention of the last text.
    """
    with torch.inference_mode():
        states = copy.deepcopy(network)(
            input_ids=torch.from_numpy(tokens.ids)[None], output_hidden_states=True
        ).hidden_states
    return [(state[0] if isinstance(state, tuple) else state)[0, : len(tokens.ids)] for state in states]


def save_tiny(kind: Any, name: str, keys: dict[str, Any], folder: Path) -> Path:
    if name not in CONFIG_MAPPING:
        pytest.skip(f"this version of transformers has no {name}")
    torch.manual_seed(0)
    build = getattr(kind, "from_config", None) or kind._from_config
    build(AutoConfig.for_model(name, **keys)).save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_hidden_state_equals_the_librarys_with_or_without_padding(name: str, tmp_path: Path) -> None:
    encoder = load(save_tiny(AutoModel, name, ARCHITECTURES[name], tmp_path))
    assert encoder.depth == tiny.DEPTH
    whole = AutoModel.from_pretrained(tmp_path).eval()
    reference = whole.get_encoder() if whole.config.is_encoder_decoder else whole
    tokens = tokenise(encoder.tokenizer, [*SENTENCES, LONG], encoder.limit or 60)
    lengths = [len(text.ids) for text in tokens]
    expected = [own_states(reference, text) for text in tokens]
    layers = list(range(tiny.DEPTH + 1))
    with torch.inference_mode():
        together = encoder.encode(tokens, layers, batch_tokens=10_000)
        backwards = encoder.encode(tokens[::-1], layers[::-2])
        alone = [encoder.encode([text], [k]).layers for k in layers for text in tokens]
    for k in layers:
        of_library = torch.cat([states[k] for states in expected])
        torch.testing.assert_close(together.layers[k], of_library, atol=5e-6, rtol=0)
        separate = torch.cat([vectors[k] for vectors in alone if k in vectors])
        torch.testing.assert_close(separate, of_library, atol=5e-6, rtol=0)
    last = torch.cat(torch.split(backwards.layers[tiny.DEPTH], lengths[::-1])[::-1])
    torch.testing.assert_close(last, torch.cat([states[tiny.DEPTH] for states in expected]), atol=5e-6, rtol=0)
    assert encoder.reading([1]).pads == (name not in UNPADDED)


@pytest.mark.parametrize(("words", "name"), [(words, name) for words, models in REFUSED.items() for name in models])
def test_network_without_token_vectors_is_refused(words: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=words):
        load(save_tiny(AutoModel, name, REFUSED[words][name], tmp_path)).reading([1])


def test_missing_layers_are_refused(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = hidden_states

    def lacking(*arguments: Any) -> dict[int, torch.Tensor]:
        return {k: state[..., : tiny.WIDTH - (k == 2)] for k, state in real(*arguments).items()}

    monkeypatch.setattr(encoder_module, "hidden_states", lacking)
    broken = Encoder(encoder.files, None, "float32", torch.device("cpu"))
    assert broken.reading([0, 1, 3]).pads
    with pytest.raises(ModelError, match="in hidden states 2, only in 0, 1, 3"):
        encode(broken, SENTENCES, [1, 2])


@pytest.mark.parametrize("name", ["t5", "mt5", "switch_transformers", "longt5"])
def test_separately_saved_encoder_is_read(name: str, tmp_path: Path) -> None:
    kinds = {"t5": "T5", "mt5": "MT5", "switch_transformers": "SwitchTransformers", "longt5": "LongT5"}
    kind = getattr(transformers, f"{kinds[name]}EncoderModel")
    encoder = load(save_tiny(kind, name, ARCHITECTURES[name], tmp_path))
    (tokens,) = tokenise(encoder.tokenizer, SENTENCES[:1], None)
    expected = own_states(kind.from_pretrained(tmp_path).eval(), tokens)
    for k in range(tiny.DEPTH + 1):
        torch.testing.assert_close(encode(encoder, SENTENCES[:1], [k]).layers[k], expected[k], atol=5e-6, rtol=0)


def test_classifier_checkpoint_loads_its_encoder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = BertConfig(**tiny._BERT, num_labels=3)
    classifier = BertForSequenceClassification(config).eval()
    classifier.save_pretrained(tmp_path / "mnli")
    tiny.tokenizer().save_pretrained(tmp_path / "mnli")
    encoder = load(tmp_path / "mnli")
    assert isinstance(encoder.network, BertModel)
    found = encode(encoder, SENTENCES[:1], [tiny.DEPTH]).layers[tiny.DEPTH]
    with torch.inference_mode():
        ids = torch.from_numpy(tokenise(encoder.tokenizer, SENTENCES[:1], None)[0].ids)[None]
        expected = classifier.bert(input_ids=ids).last_hidden_state[0]
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)


SHORT = "we saw it again today ."


def tokens_of(length: int) -> TextTokens:
    """Return a text of `length` tokens, each its own number, between an opening and a closing special token."""
    special, ids = np.r_[1, np.zeros(length, dtype=np.int64), 2], np.arange(length + 2)
    return TextTokens(special, ids, np.zeros_like(ids), empty=False, truncated=False, unknown=False)


@given(st.integers(1, 60), st.integers(3, 20), st.data())
def test_every_token_is_in_a_window_and_no_window_is_too_long(length: int, size: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, size - 2))
    windows = split_into_windows(tokens_of(length), size, stride)
    assert max(map(len, windows)) <= size
    assert set(np.concatenate(windows).tolist()) == set(range(length + 2))
    for places in windows:
        assert (places[0], places[-1]) == (0, length + 1), "the special tokens are in every window"
        assert (np.diff(places[1:-1]) == 1).all(), "and between them a stretch of the text"
    assert len(windows) == (1 if length + 2 <= size else math.ceil((length - (size - 2)) / stride) + 1)


def test_long_text_is_read_to_its_end_and_short_text_scores_are_unchanged() -> None:
    windowed, cut = (twmd_registry.load("twmd", truncation=how) for how in ("window:64/32", "cut:64"))
    end = "and at the very end the whale sang in a cold green harbour ."
    predictions, references = [SHORT, f"{LONG} {end}", LONG], ["we met again today .", f"{LONG} {end}", f"{LONG} {end}"]
    found, short = windowed.score(predictions, references), cut.score(predictions[:1], references[:1])
    assert found.scores[0] == pytest.approx(short.score, abs=1e-6)
    assert found.scores[1] == pytest.approx(1.0, abs=1e-5)
    assert found.scores[2] < 0.999, "what a cut text would not show"
    assert found.counts.truncated == 0
    assert "|truncation:window%3A64/32|" in str(found.signature)
    assert twmd_registry.load(found.signature).score(predictions, references) == found


@pytest.mark.parametrize(
    ("truncation", "words"),
    [
        ("window:513/64", "truncation to 513 tokens is out of range: .* reads at most 512 tokens"),
        ("window:16/15", "window:16/15 leaves tokens out: a window has room for 14 tokens of a text"),
        ("window:2/1", "truncation to 2 tokens leaves no room for text .*: expected at least 3"),
    ],
)
def test_impossible_windows_are_refused(truncation: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        twmd_registry.load("twmd", truncation=truncation).score(["a"], ["b"])


def test_pair_model_has_no_token_vectors_to_average() -> None:
    with pytest.raises(SpecError, match="stsscore has none: use cut or cut:N"):
        twmd_registry.load("stsscore", truncation="window:64/32")


def test_mean_vector_can_be_fitted_over_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path))
    from twmd_registry.cli import main
    from twmd_registry.encode.mean_vectors import read_background

    corpus = tmp_path / "corpus.txt"
    corpus.write_text(f"{LONG}\n{SHORT}\n", encoding="utf-8")
    for truncation in ("window:64/32", "cut:64"):
        assert main(["fit", "mean", str(corpus), "--set", f"truncation={truncation}"]) == 0
    abouts = [read_background(path).about for path in (tmp_path / "backgrounds").iterdir()]
    assert sorted((str(about.get("stride")), about["tokens"]) for about in abouts) == [
        ("32", len(LONG.split()) + 6),
        ("None", 62 + 6),
    ]
