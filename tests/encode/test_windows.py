"""Long texts in overlapping windows: nothing is left out, a token's vectors are averaged, short texts do not notice."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twmd_registry
from twmd_registry.encode.encoder import split_into_windows
from twmd_registry.errors import SpecError
from twmd_registry.tensors import TextTokens

LONG = " ".join(["the cat sat on the mat and a dog ran over the hill in rain"] * 9)
SHORT = "we saw it again today ."


def tokens_of(length: int) -> TextTokens:
    """Return a text of so many own tokens between an opening and a closing special token; each is its own number."""
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


@pytest.mark.parametrize("metric", ["twmd", "trwmd", "moverscore", "bertscore_centered", "wordset_cka", "sbert"])
def test_long_text_is_read_to_its_end_and_short_ones_score_as_ever(metric: str) -> None:
    windowed = twmd_registry.scorer(metric, truncation="window:64/32")
    cut = twmd_registry.scorer(metric, truncation="cut:64")
    end = "and at the very end the whale sang in a cold green harbour ."
    predictions, references = [SHORT, f"{LONG} {end}", LONG], ["we met again today .", f"{LONG} {end}", f"{LONG} {end}"]
    found, short = windowed.score(predictions, references), cut.score(predictions[:1], references[:1])
    assert found.scores[0] == pytest.approx(short.score, abs=1e-6)
    assert found.scores[1] == pytest.approx(1.0, abs=1e-5)
    assert found.scores[2] < 0.999, "what a cut text would not show"
    assert found.counts.truncated == 0
    assert "|truncation:window%3A64/32|" in str(found.signature)
    assert twmd_registry.scorer(found.signature).score(predictions, references) == found


@pytest.mark.parametrize(
    ("truncation", "words"),
    [
        ("window:513/64", "truncation to 513 tokens is out of range: .* reads at most 512 tokens"),
        ("window:16/15", "window:16/15 leaves tokens out: a window holds 14 of a text beside special tokens"),
        ("window:2/1", "truncation to 2 tokens leaves no room for text .*: expected at least 3"),
    ],
)
def test_windows_that_cannot_be_are_refused(truncation: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        twmd_registry.scorer("twmd", truncation=truncation).score(["a"], ["b"])


def test_pair_model_has_no_token_vectors_to_average() -> None:
    with pytest.raises(SpecError, match="stsscore has none: use cut or cut:N"):
        twmd_registry.scorer("stsscore", truncation="window:64/32")


def test_mean_vector_can_be_fitted_over_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path))
    from twmd_registry.cli import main
    from twmd_registry.encode.mean_vectors import read_background

    corpus = tmp_path / "corpus.txt"
    corpus.write_text(f"{LONG}\n{SHORT}\n", encoding="utf-8")
    for truncation in ("window:64/32", "cut:64"):
        assert main(["fit-mean", str(corpus), "--truncation", truncation]) == 0
    abouts = [read_background(path).about for path in (tmp_path / "backgrounds").iterdir()]
    assert sorted((str(about.get("stride")), about["tokens"]) for about in abouts) == [
        ("32", len(LONG.split()) + 6),
        ("None", 62 + 6),
    ]
