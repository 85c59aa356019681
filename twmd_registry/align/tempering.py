"""The settings of tempered alignment."""

from __future__ import annotations

from typing import NamedTuple

from twmd_registry.registry.names import Objective


class Tempering(NamedTuple):
    """How a plan is tempered.

    Attributes:
        temperature: T > 0; small T is greedy, large T is uniform.
        iterations: Sinkhorn sweeps; None runs to the fixed point.
        objective: ``expected`` for <pi, S>, ``entropic`` for the tempered objective itself.
    """

    temperature: float = 1.0
    iterations: int | None = 1
    objective: Objective = Objective.EXPECTED
