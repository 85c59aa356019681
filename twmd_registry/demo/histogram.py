"""Distributions of scores in the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from twmd_registry.report.histogram import histogram

DIGITS = 3


def histograms(scores: Mapping[str, Sequence[float]]) -> str:
    """Draw a histogram per metric, side by side as far as there is room.

    Args:
        scores: By name, finite numbers, at least one.
    """
    drawn = (
        f"<figure><figcaption>{escape(name)}: rows by "
        f"score</figcaption>{histogram([np.asarray(values)], f'distribution of {name}', DIGITS)}</figure>"
        for name, values in scores.items()
    )
    return f'<div class="twmd-histograms">{"".join(drawn)}</div>'
