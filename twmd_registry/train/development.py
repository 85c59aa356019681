"""How well a metric agrees with people before and after it is trained."""

from __future__ import annotations

from typing import NamedTuple


class DevelopmentAgreement(NamedTuple):
    """How well scores agree with ratings: means over the groups of all development sets.

    Attributes:
        pearson: From -1 to 1.
        kendall: tau-b; from -1 to 1.
        epoch: After so many passes over the training data; 0 before training.
    """

    pearson: float
    kendall: float
    epoch: float = 0.0
