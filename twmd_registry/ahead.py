"""Working one step ahead of whoever takes the results."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from itertools import islice
from threading import Event
from typing import TypeVar

import torch

Found = TypeVar("Found")


def one_ahead(items: Iterator[Found], over: Event) -> Iterator[Found]:
    """Give the items of an iterator, the next of which is made in a thread meanwhile; without gradients.

    Args:
        items: What is given.
        over: Set when nobody wants more, so that `items` need not finish what it is at.
    """
    inference, context = torch.is_inference_mode_enabled(), copy_context()  # held warnings are found by the context
    queue = torch.cuda.current_stream() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]

    def step() -> list[Found]:
        # A thread has modes of its own (no inference mode means gradients), and a queue of work of its own that nobody here would wait for.
        with torch.inference_mode(inference), torch.no_grad(), torch.cuda.stream(queue) if queue else nullcontext():
            return list(islice(items, 1))

    with ThreadPoolExecutor(1) as pool:
        try:
            coming = pool.submit(context.run, step)
            while found := coming.result():
                coming = pool.submit(context.run, step)
                yield found[0]
        finally:
            over.set()
