"""Aggregation of layers against its definitions, one token and one dimension at a time."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.align.problems import QUICK, seeds
from tests.oracles import movers
from twmd_registry.engine.aggregation import aggregate
from twmd_registry.registry.names import RoutingKernel

POWERS = ["1", "2", "3", "4", "7", "inf", "-inf"]
WAYS = ["mean", "concat", "pmeans:-inf,1,inf", "pmeans:2,3", "routing:gaussian", "routing:epanechnikov"]


def layers(tokens: int, depth: int, width: int = 6, seed: int = 0, spread: float = 1.0) -> Tensor:
    """Unit vectors; with a small `spread` a token's layers lie close together."""
    draw = np.random.default_rng(seed)
    found = draw.normal(size=(tokens, 1, width)) + spread * draw.normal(size=(tokens, depth, width))
    return torch.tensor(found / np.linalg.norm(found, axis=2, keepdims=True))


def test_mean_is_the_mean_and_single_the_only_one() -> None:
    z = layers(4, 3)
    np.testing.assert_allclose(aggregate(z, "mean"), z.numpy().mean(axis=1), atol=1e-15)
    np.testing.assert_array_equal(aggregate(z[:, :1], "single"), z[:, 0])


def test_concatenation_puts_one_layer_after_the_other() -> None:
    z = layers(4, 3)
    found = aggregate(z, "concat")
    assert found.shape == (4, 18)
    for t in range(4):
        assert found[t].tolist() == [x for vector in z[t].tolist() for x in vector]


def test_power_means_stand_one_after_the_other() -> None:
    z = layers(5, 3, seed=4)
    found = aggregate(z, "pmeans:" + ",".join(POWERS))
    assert found.shape == (5, 6 * len(POWERS))
    for t, token in enumerate(z.numpy()):
        np.testing.assert_allclose(
            found[t], np.concatenate([movers.power_mean(token, power) for power in POWERS]), atol=1e-12
        )


@pytest.mark.parametrize("power", ["3", "99"])
def test_high_power_of_small_numbers_is_not_lost_in_float32(power: str) -> None:
    z = layers(3, 4, width=384, seed=6)
    found = aggregate(z.to(torch.float32), f"pmeans:{power}")
    np.testing.assert_allclose(found, [movers.power_mean(token, power) for token in z.numpy()], atol=1e-5)


@QUICK
@given(
    kernel=st.sampled_from(get_args(RoutingKernel)),
    tokens=st.integers(1, 5),
    depth=st.sampled_from([2, 3, 6, 12]),
    seed=seeds,
    spread=st.sampled_from([0.1, 1.0, 4.0]),
)
def test_routing_is_algorithm_1_of_every_token(kernel: str, tokens: int, depth: int, seed: int, spread: float) -> None:
    z = layers(tokens, depth, seed=seed, spread=spread)
    wanted = [movers.routing(token, kernel) for token in z.numpy()]
    np.testing.assert_allclose(aggregate(z, f"routing:{kernel}"), wanted, atol=1e-9)


def test_token_that_no_layer_is_near_keeps_the_mean_of_its_layers() -> None:
    z = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]], [[0.6, 0.8], [0.6, 0.8]]], dtype=torch.float64)
    found = aggregate(z, "routing:epanechnikov")
    assert found[0].tolist() == [0.0, 0.0]
    assert bool((found[1] > 0).all())


@pytest.mark.parametrize("how", WAYS)
def test_token_does_not_depend_on_its_neighbours_nor_on_the_order_of_layers(how: str) -> None:
    z = torch.cat([layers(5, 4, seed=1, spread=spread) for spread in (0.05, 1.0, 5.0)])
    together = aggregate(z, how)
    for t in range(len(z)):
        torch.testing.assert_close(aggregate(z[t : t + 1], how)[0], together[t], atol=1e-14, rtol=0)
    assert len(aggregate(z[:0], how)) == 0
    same = torch.allclose(aggregate(z.flip(1), how), together, atol=1e-12)
    assert same is (how != "concat")
