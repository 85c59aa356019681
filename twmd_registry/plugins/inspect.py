"""Our metrics as scorers for inspect_ai, with mean and standard error. Waiting samples are scored together."""

from __future__ import annotations

from typing import Any, Unpack

from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import load
from twmd_registry.engine.shared_passes import Batcher
from twmd_registry.errors import InputError, check_types, missing_extra
from twmd_registry.messages import collect_warnings, warn
from twmd_registry.plugins import name_of
from twmd_registry.registry.options import MetricKeys

try:
    import anyio.to_thread
    from inspect_ai.scorer import Score, Target, mean, scorer, stderr
    from inspect_ai.solver import TaskState
except ImportError as error:
    raise missing_extra("scorers for inspect_ai need it", "inspect") from error


@check_types(name=str | None)
def metric_scorer(
    metric: str = "twmd", preset: str | None = None, *, name: str | None = None, **keys: Unpack[MetricKeys]
) -> Any:
    """Create a scorer for inspect_ai that scores a sample's output against its target or targets.

    Scores are not rescaled, and inspect_ai's ``mean`` and ``stderr`` summarise them. Every ``Score.metadata`` has the
    signature. A warning names its sample.

    Args:
        metric: A metric or signature, as for `twmd_registry.load`.
        preset: A preset's name.
        name: The scores' name in the log, by default the metric's with its preset and changed keys
            (``twmd_layer_6``).
        keys: Keys of the specification and run options. ``any_language`` defaults to true, because one output in
            another script should not end an evaluation.

    Raises:
        SpecError: As for `twmd_registry.load`, or scores depend on the other samples (see `Batcher`).
    """
    batcher = Batcher(load(metric, preset, **{"any_language": True} | keys))
    name = name or name_of(batcher.scorer.requested, preset)

    def score_sample(number: int | str, text: str, references: list[str]) -> ScoreSet:
        with collect_warnings() as messages:
            scores = batcher.score(text, references)
        for message in messages:
            warn(f"sample {number}: {message}")
        return scores

    def registered(metric: str, preset: str | None, **keys: Any) -> Any:  # noqa: ARG001 (inspect_ai logs them)
        async def score(state: TaskState, target: Target) -> Score:
            text, references = state.output.completion, list(target)
            if not references:
                raise InputError(f"sample {state.sample_id} has no target: every sample needs at least one text.")
            scores = await anyio.to_thread.run_sync(score_sample, state.sample_id, text, references)
            return Score(value=scores.score, answer=text, metadata={"signature": str(scores.signature)})

        return score

    return scorer(metrics=[mean(), stderr()], name=name)(registered)(metric, preset, **keys)
