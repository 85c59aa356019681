"""Rows that a framework scores one by one share passes, and nothing else."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

import twmd_registry
from twmd_registry.errors import InputError, TwmdWarning
from twmd_registry.plugins import batcher
from twmd_registry.plugins.batcher import Batcher


def test_row_that_is_refused_does_not_refuse_the_rows_of_its_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "WAIT", 0.5)
    own, texts = Batcher(twmd_registry.scorer("sbert")), ["it rains", "в доме тихо", "it snows"]
    with ThreadPoolExecutor(len(texts)) as pool:
        futures = [pool.submit(own.score, text, text) for text in texts]
    assert isinstance(futures[1].exception(), InputError)
    assert [futures[k].result().score for k in (0, 2)] == pytest.approx([1.0, 1.0])


def test_warning_that_is_an_error_reaches_the_row_that_it_is_about() -> None:
    own = Batcher(twmd_registry.scorer("sbert"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", TwmdWarning)
        with pytest.raises(TwmdWarning, match="empty"):
            own.score("", "it rains")
        assert own.score("it rains", "it rains").score == pytest.approx(1.0)
