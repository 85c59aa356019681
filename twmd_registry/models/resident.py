"""A loaded network that can leave its device for a while."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

from twmd_registry.models.pool import empty_device_cache

if TYPE_CHECKING:
    import torch


class LoadedModel:
    """What loaded models share: a network, and the device on which it works.

    Attributes:
        network: The network.
        device: Where it runs.
        lock: To be held while it is used.
        parked: Whether it waits in the CPU's memory.
        static: Whether it is a table of word vectors; words without one are then left out.
    """

    network: Any
    device: torch.device
    lock: RLock
    parked = False
    static = False

    def park(self) -> None:
        """Move the network to the CPU and free its device's memory; it comes back by itself at the next use."""
        with self.lock:
            self.network.to("cpu")
            self.parked = True
        empty_device_cache()

    def wake(self) -> None:
        """Bring a parked network back to its device; called with the lock held, before every use."""
        if self.parked:
            self.network.to(self.device)
            self.parked = False
