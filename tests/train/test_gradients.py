"""Gradients of whole scores: from token vectors through centering, alignment and Eq. 1, against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.align.problems import evenly, tempered
from twmd_registry.align import ALIGNERS
from twmd_registry.align.sinkhorn import sinkhorn
from twmd_registry.engine.pipeline import align_and_reduce
from twmd_registry.engine.token_vectors import Selection, TokenItems, make_units, make_view
from twmd_registry.registry.metric_spec import AppliedSpec
from twmd_registry.registry.names import CenteringKind, MetricName
from twmd_registry.registry.spec import make_spec
from twmd_registry.tensors import EncodedTexts, TokenVectors

LENGTHS = [3, 2, 4, 1]
ITEMS = TokenItems(
    row=np.arange(4), group=np.array([0, 1, 0, 1]), side=np.zeros(4, dtype=np.int64),
    occurrences=np.ones(4, dtype=np.int64), groups=2, partner=np.full(4, -1),
    hyp=np.array([0, 2]), ref=np.array([1, 3]),
)  # fmt: skip
"""Two pairs, (3, 2) and (4, 1) tokens, so all sides but one are padded; each side has its own mean."""


def drawn(seed: int = 4) -> torch.Tensor:
    """Vectors whose similarities differ by a few hundredths, so cold plans are soft somewhere."""
    draw = np.random.default_rng(seed)
    return torch.tensor(0.3 * draw.normal(size=(sum(LENGTHS), 3)) + 0.8, requires_grad=True)


def scores(metric: MetricName, vectors: torch.Tensor, items: TokenItems = ITEMS, **keys: Any) -> torch.Tensor:
    """Precision, recall and F1 of both pairs, by the functions that score."""
    arguments = {
        name: value
        for name, value in keys.items()
        if name in ("centering", "normalize") or metric in (MetricName.TWMD, MetricName.TRWMD)
    }
    if metric is not MetricName.TWMD:
        arguments.pop("iterations", None)
    if metric is MetricName.MOVERSCORE:
        arguments |= {"distance": "similarity", "transform": "linear", "idf": "none", "ngram": 1}
    spec = AppliedSpec.of(make_spec(metric, model="any/model", layer=1, **arguments))
    view = make_view(spec)
    tokens = TokenVectors(vectors, torch.tensor(LENGTHS))
    none = torch.zeros(len(vectors), dtype=torch.int64)
    texts = EncodedTexts({}, tokens.lengths, none, none, none)
    _, held = make_units(view, texts, Selection([tokens]), items, None)
    (found,), _ = align_and_reduce(held, items, np.zeros(4, dtype=bool), [spec])
    return found


@pytest.mark.parametrize(("centering", "temperature"), [("batch", 0.02), ("none", 0.1), ("dimension", 1.0)])
@pytest.mark.parametrize("metric", ALIGNERS)
def test_gradients_equal_finite_differences(metric: MetricName, temperature: float, centering: CenteringKind) -> None:
    assert torch.autograd.gradcheck(
        lambda x: scores(metric, x, temperature=temperature, iterations=1, centering=centering),
        (drawn(),),
        eps=1e-7,
        atol=1e-4,
    )


def test_gradients_of_a_cold_fixed_point_equal_finite_differences() -> None:
    s = torch.tensor([[[0.30, 0.26, 0.0], [0.28, 0.29, 0.0]]], dtype=torch.float64, requires_grad=True)
    hyp, ref = torch.tensor([[True, True]]), torch.tensor([[True, True, False]])
    how = tempered(0.02, None)
    assert torch.autograd.gradcheck(lambda x: sinkhorn(x, evenly(hyp), evenly(ref), how), (s,), eps=1e-6, atol=1e-3)


@pytest.mark.parametrize("metric", ALIGNERS)
def test_gradient_of_a_text_that_centering_removes_is_finite(metric: MetricName) -> None:
    vectors = drawn()
    found = scores(metric, vectors, temperature=0.1, iterations=1, centering="sentence")  # the last text has one word
    (slope,) = torch.autograd.grad(found.sum(), vectors)
    assert bool(torch.isfinite(slope).all())
    assert (float(slope[:5].abs().max()) > 0) is (metric is not MetricName.SBERT)  # the mean over a text is zero, too
    assert float(slope[5:].abs().max()) == 0


@pytest.mark.parametrize("metric", ALIGNERS)
def test_gradient_of_identical_texts_is_zero(metric: MetricName) -> None:
    """By Eq. 1 (and for unit vectors without it) such a pair scores 1 with any vectors."""
    vectors = drawn()
    found = scores(metric, vectors, ITEMS._replace(ref=ITEMS.hyp), temperature=0.1, iterations=1, centering="none")
    (slope,) = torch.autograd.grad(found.sum(), vectors)
    torch.testing.assert_close(found.detach(), torch.ones(3, 2, dtype=torch.float64), atol=1e-12, rtol=0)
    assert float(slope.abs().max()) < 1e-12
