"""Several metrics in one evaluation: ours, SacreBLEU's, and `evaluate` modules."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, TypeVar

import numpy as np
from datasets import Value

from twmd_registry.comparison.cells import MetricColumn
from twmd_registry.comparison.lexical import canonical_lexical, is_lexical
from twmd_registry.comparison.systems import compare_systems
from twmd_registry.engine.distributed import Ranks, score_over_ranks, world_size
from twmd_registry.engine.pairs import Segments, check_segments
from twmd_registry.engine.result import NOTED, ScoreSet
from twmd_registry.engine.scorer import Scorer, load
from twmd_registry.engine.shared_passes import check_keeps_rows
from twmd_registry.errors import SpecError
from twmd_registry.messages import menu, warn
from twmd_registry.registry.metric_spec import has_keys
from twmd_registry.registry.names import LEXICAL_NAMES, OUTPUTS, MetricName
from twmd_registry.registry.signature import Signature

SIDES_AND_COUNTS = (*OUTPUTS, *NOTED)
"""Results in addition to the score: a metric's sides, and nonzero counts."""
T = TypeVar("T")


class Evaluation(NamedTuple):
    """The scores of one evaluation of one set.

    Attributes:
        values: Finite numbers by key: a metric's name for its score, ``NAME_precision``, ``NAME_truncated`` and so on.
        signatures: Signatures by metric, for metrics that have one.
        score_sets: Scores of our metrics.
        lexical: SacreBLEU's metrics, as a record takes them.
        segments: The scored texts; None if they were not kept.
        seconds: Wall time.
        name: The prefix of the scores in `Trainer`: ``eval``, ``eval_news``, ``test``.
        split: The split of the data set, if known.
        dataset: The data set's name, if known.
    """

    values: dict[str, float]
    signatures: dict[str, str]
    score_sets: tuple[ScoreSet, ...]
    lexical: tuple[MetricColumn, ...]
    segments: Segments | None
    seconds: float
    name: str = "eval"
    split: str | None = None
    dataset: str | None = None


Panel = dict[str, Any]
"""Metrics by name: a `Scorer`, the name of one of SacreBLEU's, or an object with ``compute`` like `evaluate`'s."""


def score_evaluation(panel: Panel, predictions: Sequence[str], references: Any, sources: Any = None) -> Evaluation:
    """Score one evaluation, encoding every text once per model.

    `Trainer` passes all texts to every process, and each needs the same numbers. Each process scores its share with our
    metrics, and the first computes the others. Numbers that are not finite are left out with a warning.
    """
    started, segments = time.perf_counter(), check_segments(predictions, references, sources)
    scorers = {name: metric for name, metric in panel.items() if isinstance(metric, Scorer)}
    sets = tuple(score_over_ranks(list(scorers.values()), *segments)) if scorers else ()
    columns, others = _on_first_process(lambda: _score_others(panel, segments))
    ours = dict(zip(scorers, sets, strict=True))
    lexical = dict(zip((name for name, metric in panel.items() if isinstance(metric, str)), columns, strict=True))
    pairs = list[tuple[str, float]]()
    for name, scores in ours.items():
        whole = scores.as_dict()
        kept = (key for key in SIDES_AND_COUNTS if key in whole and (whole[key] or key not in NOTED))
        pairs += [(name, scores.score), *((f"{name}_{key}", float(whole[key])) for key in kept)]
    pairs += [*((name, column.cells[0].score) for name, column in lexical.items()), *others]
    signatures = {name: str(scores.signature) for name, scores in ours.items()}
    signatures |= {name: column.signature for name, column in lexical.items()}
    return Evaluation(_finite(pairs), signatures, sets, columns, segments, time.perf_counter() - started)


def _score_others(panel: Panel, segments: Segments) -> tuple[tuple[MetricColumn, ...], list[tuple[str, float]]]:
    """Return the columns of SacreBLEU's metrics, and the scores of `evaluate` modules by key."""
    columns, systems = tuple[MetricColumn, ...](), [("", segments.predictions)]
    if lexical := [metric for metric in panel.values() if isinstance(metric, str)]:
        columns = compare_systems(systems, segments.references, lexical).columns
    modules = {name: metric for name, metric in panel.items() if not isinstance(metric, Scorer | str)}
    return columns, [pair for name, module in modules.items() for pair in _of_module(name, module, segments)]


def _on_first_process(work: Callable[[], T]) -> T:
    """Call a function in the first process, and return its result or raise its error in all processes."""
    if world_size() == 1:
        return work()
    ranks = Ranks()
    results: list[Any] = ranks.together(lambda: ranks.exchange(work() if ranks.rank == 0 else None))
    result: T = results[0]
    return result


def make_panel(metrics: Iterable[Any] | Mapping[str, Any], keep_references: int | str = 0) -> Panel:
    """Return metrics by name, given the forms that `RegistryCallback` takes."""
    if isinstance(metrics, str) or not isinstance(metrics, Iterable):
        raise SpecError(f"metrics must be a list of metrics, or a dict of metrics by name; got {metrics!r:.60}.")
    panel = Panel()
    pairs = metrics.items() if isinstance(metrics, Mapping) else ((None, metric) for metric in metrics)
    for chosen_name, metric in pairs:
        usual, value = _open(metric, keep_references)
        name = chosen_name or usual
        if not isinstance(name, str):
            raise SpecError(f"{metric!r:.60} has no name: pass a dict {{name: metric}}.")
        if name in panel:
            raise SpecError(f"two metrics would be called {name!r}: pass a dict {{name: metric}}.")
        panel[name] = value
    if not panel:
        raise SpecError("metrics is empty: pass at least one metric.")
    return panel


def _open(metric: Any, keep_references: int | str) -> tuple[str | None, Any]:
    """Return a metric's usual name, and its entry in a `Panel`."""
    if isinstance(metric, str) and is_lexical(metric):
        metric = canonical_lexical(metric)
        return re.sub(r"\W+", "_", metric), metric
    if isinstance(metric, Signature) or (
        isinstance(metric, str) and ("|" in metric or metric.partition("(")[0].partition(";")[0] in set(MetricName))
    ):
        # Early in training a model may write in any script, which should not end the training.
        scorer = load(metric, keep_references=keep_references, any_language=True)
        if isinstance(metric, str) and has_keys(metric):
            check_keeps_rows(scorer)
            return re.sub(r"\W+", "_", metric), scorer
        metric = scorer
    elif isinstance(metric, str):
        import evaluate

        try:
            metric = evaluate.load(metric)
        except (OSError, ImportError, ValueError) as error:
            choices = menu(metric, [*MetricName, *LEXICAL_NAMES])
            reason = " ".join(str(error).split())
            raise SpecError(f"unknown metric {metric!r}; {choices}. evaluate does not load it: {reason}") from error
    # Our classes for other frameworks have a scorer.
    our_scorer = metric if isinstance(metric, Scorer) else getattr(metric, "scorer", None)
    if isinstance(our_scorer, Scorer):
        check_keeps_rows(our_scorer)
        return str(our_scorer.requested.metric), our_scorer
    if not callable(getattr(metric, "compute", None)):
        expected = "a name, a signature, a scorer, or a loaded evaluate module"
        raise SpecError(f"{metric!r:.60} is not a metric: expected {expected}.")
    return getattr(metric, "name", None), metric


def _of_module(name: str, module: Any, segments: Segments) -> Iterator[tuple[str, float]]:
    """Yield every scalar result of a module."""
    values = module.compute(predictions=list(segments.predictions), references=_references_for(module, segments))
    for key, value in values.items():
        number = value.item() if hasattr(value, "item") and np.ndim(value) == 0 else value
        if isinstance(number, Real) and not isinstance(number, bool):
            yield (name if key == name else f"{name}_{key}"), float(number)


def _references_for(module: Any, segments: Segments) -> list[Any]:
    """Return references as a module expects them: one text per row if possible, or lists of texts."""
    forms = getattr(module, "features", None) or []
    kinds = [form["references"] for form in (forms if isinstance(forms, list) else [forms]) if "references" in form]
    takes_text = not kinds or any(isinstance(kind, Value) for kind in kinds)
    if takes_text and all(len(texts) == 1 for texts in segments.references):
        return [texts[0] for texts in segments.references]
    return [*segments.references]


def _finite(named: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return scores by key, without those that are not finite."""
    values: dict[str, float] = {}
    for key, value in named:
        if key in values:
            raise SpecError(f"two scores would be called {key!r}: pass a dict {{name: metric}} with other names.")
        if math.isfinite(value):
            values[key] = value
        else:
            warn(f"{key} is {value} and is left out of this evaluation.")
    return values
