"""Linear layers on oneDNN equal torch's."""

from __future__ import annotations

import pickle
import platform
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

import twmd_registry
from tests.conftest import Texts
from twmd_registry.encode.encoder import Encoder, tokenise
from twmd_registry.models import inference
from twmd_registry.models.files import find_model
from twmd_registry.models.inference import LoadedModel, OneDnnLinear, use_onednn
from twmd_registry.models.sentence import SentenceEncoder
from twmd_registry.record.verify import TOLERANCES
from twmd_registry.registry.names import Dtype

multiplies = inference.multiplies.__wrapped__
needs_onednn = pytest.mark.skipif(not multiplies(), reason="this torch has no oneDNN for this CPU")


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check for oneDNN in every call, because tests change it."""
    monkeypatch.setattr(inference, "multiplies", multiplies)


def quick(layer: nn.Linear) -> nn.Linear:
    """Return the same layer on oneDNN."""
    copy = pickle.loads(pickle.dumps(layer))
    use_onednn(nn.Sequential(copy))
    return copy  # type: ignore[no-any-return]


def run(layer: nn.Linear, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return a layer's products with some batches of one run."""
    model, found = LoadedModel(), list[torch.Tensor]()
    model.network, model.device = layer, torch.device("cpu")

    def forward(batch: np.ndarray) -> list[torch.Tensor]:
        found.append(layer(inputs[int(batch[0])]))
        return []

    model.run_batches(np.ones(len(inputs), dtype=int), 1, forward)
    return found


def count(monkeypatch: pytest.MonkeyPatch, name: str, tokens_of: Callable[..., int]) -> list[int]:
    """Return the tokens of every call of one of oneDNN's operators."""
    seen, operator = list[int](), getattr(torch.ops.mkldnn, name)

    def counted(*arguments: object) -> object:
        seen.append(tokens_of(*arguments))
        return operator(*arguments)

    monkeypatch.setattr(torch.ops.mkldnn, name, counted)
    return seen


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return count(monkeypatch, "_linear_pointwise", lambda x, *_: x.shape[:-1].numel())


@pytest.fixture
def layouts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return count(monkeypatch, "_reorder_linear_weight", lambda _weight, tokens: tokens)


def test_batches_group_texts_by_length_longest_first() -> None:
    model, seen = LoadedModel(), list[list[int]]()
    model.network, model.device = nn.Identity(), torch.device("cpu")

    def forward(batch: np.ndarray) -> list[torch.Tensor]:
        seen.append(batch.tolist())
        return []

    model.run_batches(np.array([2, 9, 3, 8]), 18, forward)
    assert seen == [[1, 3], [2, 0]]


def test_large_numbers_with_an_infinite_sum_are_finite() -> None:
    model = LoadedModel()
    model.network, model.device = nn.Identity(), torch.device("cpu")
    numbers: list[list[int]] = []

    def forward(batch: np.ndarray) -> list[torch.Tensor]:
        numbers.append(batch.tolist())
        return [torch.full((2,), 3e38)]

    model.run_batches(np.array([1]), None, forward)
    assert numbers == [[0]]


@needs_onednn
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(48,), (0, 48), (1, 48), (7, 1, 48), (3, 50, 48), "view"])
def test_products_equal_a_linear_layers(
    shape: tuple[int, ...] | str, products: list[int], monkeypatch: pytest.MonkeyPatch, *, bias: bool
) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(48, 96, bias=bias)
    x = torch.randn(shape) if isinstance(shape, tuple) else torch.randn(48, 10).T
    with torch.inference_mode():
        found = quick(layer)(x)
        exact = nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double() if bias else None)
        for capability in ("AVX2", "AVX512"):
            monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda capability=capability: capability)
            torch.testing.assert_close(quick(layer)(x, gelu=True), nn.functional.gelu(found), rtol=0, atol=1e-6)
    assert products == [x.shape[:-1].numel()] * 3
    assert found.shape == exact.shape
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=2e-6)


@needs_onednn
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_reordered_weights_have_the_same_products(
    dtype: torch.dtype, products: list[int], layouts: list[int], *, bias: bool
) -> None:
    if not multiplies(dtype):
        pytest.skip(f"oneDNN does not multiply {dtype} on this CPU")
    torch.manual_seed(0)
    layer = quick(nn.Linear(48, 96, bias=bias).to(dtype))
    inputs = [torch.randn(n, 48).to(dtype) for n in (50, 0, 1, 700)]
    with torch.inference_mode():
        separate = [layer(x) for x in inputs]
        assert not layouts
        together = run(layer, inputs)
    assert (products, layouts) == ([50, 0, 1, 700] * 2, [50])
    for one, other in zip(separate, together, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-6 if dtype == torch.float32 else 2**-7)


@needs_onednn
@pytest.mark.parametrize("case", [torch.float64, torch.float16, torch.bfloat16, "switched off", "training", "mixed"])
def test_unsupported_product_falls_back_to_torch(
    case: torch.dtype | str, products: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    dtype = case if isinstance(case, torch.dtype) else torch.float32
    layer, x = nn.Linear(8, 4).to(dtype), torch.randn(3, 8, dtype=torch.float64 if case == "mixed" else dtype)
    fast = quick(layer)
    with (
        torch.set_grad_enabled(case == "training"),
        torch.backends.mkldnn.flags(enabled=case != "switched off"),
        pytest.raises(RuntimeError, match="same dtype") if case == "mixed" else nullcontext(),
    ):
        assert torch.equal(fast(x), layer(x))
        if case == "training":
            fast(x).sum().backward()
            assert fast.weight.grad is not None
    assert not products


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_cpu_without_a_format_computes_in_float32_with_rounded_weights(
    dtype: Dtype, bert: str, texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False, raising=False)
    for kind in (Encoder, SentenceEncoder):
        exact, found = (
            kind(find_model(bert), None, each, torch.device("cpu")).network.state_dict() for each in ("float32", dtype)
        )
        for name, weights in exact.items():
            assert torch.equal(found[name], weights.to(getattr(torch, dtype)).to(weights.dtype))
    full, coarse = (np.array(twmd_registry.score(*texts, model=bert, dtype=each).scores) for each in ("float32", dtype))
    assert 0 < np.abs(full - coarse).max() < TOLERANCES[dtype]


def test_only_plain_linear_layers_change() -> None:
    class Own(nn.Linear):
        """Not ours to change."""

    network = nn.Sequential(nn.Linear(2, 2), Own(2, 2), nn.Bilinear(2, 2, 2))
    use_onednn(network)
    assert [type(module) for module in network] == [OneDnnLinear if multiplies() else nn.Linear, Own, nn.Bilinear]
    assert isinstance(network[0], nn.Linear)


@pytest.mark.parametrize("without", ["x86", "onednn", "operator"])
def test_torch_without_onednn_is_left_alone(without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if without == "x86":
        monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    elif without == "onednn":
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    else:
        monkeypatch.setattr(torch.ops, "mkldnn", object())
    layer = nn.Linear(2, 2)
    use_onednn(nn.Sequential(layer))
    assert type(layer) is nn.Linear


@needs_onednn
def test_encoder_multiplies_with_onednn(bert: str, products: list[int], layouts: list[int]) -> None:
    encoder = Encoder(find_model(bert), None, "float32", torch.device("cpu"))
    assert all(layer.kept is None for layer in encoder.network.modules() if isinstance(layer, OneDnnLinear))
    products.clear()
    layouts.clear()
    with torch.inference_mode():
        encoder.encode(tokenise(encoder.tokenizer, ["some text", "text"], None), [1], batch_tokens=1)
    assert len(products) == 2 * len(layouts) > 0
    assert all(layer.kept is None for layer in encoder.network.modules() if isinstance(layer, OneDnnLinear))
