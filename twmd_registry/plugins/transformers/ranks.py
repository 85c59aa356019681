"""What one of several processes that train together does for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import distributed

from twmd_registry.engine.distributed import world_size
from twmd_registry.errors import InputError

T = TypeVar("T")


def on_first_process(work: Callable[[], T]) -> T:
    """Do something once, and tell every process what came out.

    Args:
        work: What to do; its result is pickled.

    Raises:
        InputError: The first process could not do it; it raises its own error.
    """
    if world_size() == 1:
        return work()
    answer: list[Any] = [None, None]
    if distributed.get_rank() != 0:
        distributed.broadcast_object_list(answer, src=0)
        if answer[1] is not None:
            raise InputError(f"the first process could not score: {answer[1]}")
        received: T = answer[0]
        return received
    try:
        found = work()
    except Exception as error:
        distributed.broadcast_object_list([None, str(error)], src=0)  # or the others would wait for ever
        raise
    distributed.broadcast_object_list([found, None], src=0)
    return found
