"""Reading hidden states out of any transformer, and stopping it at the highest one needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from twmd_registry.errors import ModelError, SpecError


class _Enough(Exception):  # noqa: N818 - not an error: the signal that no further layer has to run
    """Raised inside a forward pass once the last hidden state needed has been seen."""


def find_blocks(network: nn.Module) -> nn.ModuleList:
    """The list of a network's transformer layers.

    Raises:
        ModelError: The network keeps its layers in no list of ``num_hidden_layers`` members.
    """
    depth = getattr(network.config, "num_hidden_layers", None)
    for module in network.modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth:
            return module
    raise ModelError(f"{type(network).__name__} keeps its layers in no list of {depth} members: it is not supported.")


def hidden_states(network: nn.Module, blocks: nn.ModuleList, layers: Iterable[int], inputs: dict[str, Any]) -> dict[int, Tensor]:
    """Run a network up to the highest layer asked for.

    Hidden state k < L is what layer k receives (k = 0: the embeddings); hidden state L is the network's own
    output. Layers above the highest one asked for are never run.

    Args:
        network: The encoder.
        blocks: Its L transformer layers.
        layers: Which hidden states, each from 0 to L.
        inputs: Arguments of the forward pass.

    Returns:
        Hidden state number to tensor (B, N, D), in the network's dtype.
    """
    wanted, found = sorted(set(layers)), dict[int, Tensor]()

    def reader(k: int) -> Any:
        def read(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            found[k] = args[0] if args else kwargs["hidden_states"]
            if k == wanted[-1]:
                raise _Enough

        return read

    hooks = [blocks[k].register_forward_pre_hook(reader(k), with_kwargs=True) for k in wanted if k < len(blocks)]
    try:
        found[len(blocks)] = network(**inputs).last_hidden_state
    except _Enough:
        pass
    finally:
        for hook in hooks:
            hook.remove()
    return {k: found[k] for k in wanted}


def check_layer(layer: int, depth: int, model: str) -> int:
    """Refuse a layer the model does not have.

    Raises:
        SpecError: `layer` is above `depth`.
    """
    if layer > depth:
        raise SpecError(f"layer={layer} is out of range: {model} has hidden states 0 to {depth}.")
    return layer


def rule_layer(depth: int) -> int:
    """The layer of a model nobody tuned: five sixths of its depth, rounded.

    >>> rule_layer(12), rule_layer(24), rule_layer(6)
    (10, 20, 5)
    """
    return round(depth * 5 / 6)
