"""The settings of alignment."""

from __future__ import annotations

from typing import NamedTuple

from twmd_registry.registry.names import Distance, Objective, Transform


class AlignmentSettings(NamedTuple):
    """Settings of a plan and of C; every aligner reads those that it uses.

    Attributes:
        temperature: T > 0; small T is greedy, large T is uniform.
        iterations: Sinkhorn sweeps; None runs to the fixed point.
        objective: ``expected`` for <pi, S>, ``entropic`` for the tempered objective itself.
        distance: The cost of moving a token (exact transport).
        transform: How the cost of the best plan becomes a score (exact transport).
    """

    temperature: float = 1.0
    iterations: int | None = 1
    objective: Objective = "expected"
    distance: Distance = "similarity"
    transform: Transform = "linear"
