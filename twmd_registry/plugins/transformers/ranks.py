"""Who scores when several processes train together. All scoring of this face happens in `score_evaluation`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import distributed

from twmd_registry.errors import InputError
from twmd_registry.plugins.transformers.panel import Panel, Scored
from twmd_registry.plugins.transformers.rows import world_size


def score_evaluation(panel: Panel, predictions: Sequence[str], references: Any) -> Scored:
    """Score one evaluation; every process holds all texts and gets all values.

    `Trainer` calls every process, which then need the same numbers: to choose the best checkpoint, or to stop. The first scores and
    tells the others, so that a model is loaded once.

    Args:
        panel: The metrics.
        predictions: One text per row.
        references: As for `Scorer.score`.

    Raises:
        InputError: As for `Panel.score`, or the first process could not score.
        ModelError: As for `Panel.score`.
        SpecError: As for `Panel.score`.
    """
    if world_size() == 1:
        return panel.score(predictions, references)
    if distributed.get_rank() != 0:
        answer: list[Any] = [None]
        distributed.broadcast_object_list(answer, src=0)
        if not isinstance(answer[0], Scored):
            raise InputError(f"the first process could not score: {answer[0]}")
        return answer[0]
    try:
        scored = panel.score(predictions, references)
    except Exception as error:
        distributed.broadcast_object_list([str(error)], src=0)  # or the others would wait for ever
        raise
    distributed.broadcast_object_list([scored._replace(score_sets=(), segments=None)], src=0)
    return scored
