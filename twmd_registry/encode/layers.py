"""Reading hidden states out of any transformer, and stopping it at the highest one needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from twmd_registry.errors import ModelError, SpecError


class _StopForward(Exception):  # noqa: N818 - not an error: the signal that no further layer has to run
    """Raised inside a forward pass once the last hidden state needed has been seen."""


def find_blocks(network: nn.Module) -> nn.ModuleList | None:
    """The list of a network's transformer layers; None when it keeps them otherwise (ALBERT runs one layer many
    times).
    """
    for module in network.modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth_of(network):
            return module
    return None


def depth_of(network: nn.Module) -> int:
    """The number of a network's layers.

    Raises:
        ModelError: Its configuration does not say.
    """
    depth = getattr(network.config, "num_hidden_layers", None)
    if not isinstance(depth, int) or depth < 0:
        raise ModelError(
            f"{type(network).__name__} does not say how many layers it has (num_hidden_layers): it is not supported."
        )
    return depth


def hidden_states(
    network: nn.Module, blocks: nn.ModuleList | None, layers: Iterable[int], inputs: dict[str, Any]
) -> dict[int, Tensor]:
    """Run a network up to the highest layer asked for.

    Hidden state k < L is what layer k receives (k = 0: the embeddings); hidden state L is the network's own
    output. Layers above the highest one asked for are never run, where a network keeps its layers in a list.

    Args:
        network: The encoder.
        blocks: Its L transformer layers; None to take the hidden states that the network itself returns.
        layers: Which hidden states, each from 0 to L.
        inputs: Arguments of the forward pass.

    Returns:
        Hidden state number to tensor (B, N, D), in the network's dtype.
    """
    wanted = sorted(set(layers))
    if blocks is None:
        states = network(**inputs, output_hidden_states=True).hidden_states
        return {k: states[k] for k in wanted}
    return _read_by_hooks(network, blocks, wanted, inputs)


def _read_by_hooks(
    network: nn.Module, blocks: nn.ModuleList, wanted: list[int], inputs: dict[str, Any]
) -> dict[int, Tensor]:
    found: dict[int, Tensor] = {}

    def reader(k: int) -> Any:
        def read(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            found[k] = args[0] if args else kwargs["hidden_states"]
            if k == wanted[-1]:
                raise _StopForward

        return read

    hooks = [blocks[k].register_forward_pre_hook(reader(k), with_kwargs=True) for k in wanted if k < len(blocks)]
    try:
        found[len(blocks)] = network(**inputs).last_hidden_state
    except _StopForward:
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


def last_layers(asked: str, depth: int) -> tuple[int, ...]:
    """The hidden states that ``last:N`` asks for; not the embedding layer.

    Raises:
        SpecError: The model has fewer than N layers.

    >>> last_layers("last:5", 6)
    (2, 3, 4, 5, 6)
    """
    number = int(asked.partition(":")[2])
    if number == 1 and depth == 0:
        return (0,)  # static vectors have nothing above their embeddings
    if number > depth:
        raise SpecError(f"layer={asked} is out of range: this model has {depth} layers.")
    return tuple(range(depth - number + 1, depth + 1))


def rule_layer(depth: int) -> int:
    """The layer of a model nobody tuned: five sixths of its depth, rounded.

    >>> rule_layer(12), rule_layer(24), rule_layer(6)
    (10, 20, 5)
    """
    return round(depth * 5 / 6)
