"""Decisions where the papers, their programs and this package could differ; each is in the documentation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import twmd_registry
from twmd_registry.errors import TwmdWarning

PREDICTIONS = ["the cat sat on the mat", "it rains in the old town today"]
REFERENCES = ["a cat sat on a mat", "it is raining in town"]


@pytest.mark.parametrize("centering", ["corpus", "batch"])
def test_empty_text_adds_nothing_to_the_mean_of_its_batch_or_corpus(centering: str) -> None:
    with twmd_registry.scorer("twmd", centering=centering, special="all") as twmd:
        alone = twmd.score(PREDICTIONS, REFERENCES).scores
        with pytest.warns(TwmdWarning, match="texts without a token: 2"):
            beside = twmd.score([*PREDICTIONS, ""], [*REFERENCES, " "]).scores
    np.testing.assert_allclose(beside[:2], alone, atol=1e-6)
    assert beside[2] == 1.0


def test_special_token_written_in_a_text_counts_as_a_word() -> None:
    with twmd_registry.scorer("bertscore_centered", centering="none", special="none") as metric:
        plain, written = (metric.score(["cat"], [text]).recall for text in ("cat", "cat [SEP]"))
    assert plain is not None
    assert written is not None
    assert plain[0] == pytest.approx(1)
    assert written[0] < 0.99


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_ngram_without_idf_has_the_weight_one(temperature: float) -> None:
    keys: dict[str, Any] = {"centering": "none", "special": "none", "normalize": False, "objective": "entropic"}
    with twmd_registry.scorer("trwmd", ngram="sentence", temperature=temperature, **keys) as metric:
        (one_ngram,) = metric.score(["a cat sat"], ["a cat sat"]).scores
    # T log sum_j b_j exp(S_ij / T) of a single pair of n-grams is S + T log b: 1 for b = 1, 1 + T log 3 for b = 3.
    assert one_ngram == pytest.approx(1, abs=1e-5)
    assert one_ngram != pytest.approx(1 + temperature * math.log(3), abs=1e-3)
