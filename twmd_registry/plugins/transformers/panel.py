"""The metrics of one training run: ours in one go, SacreBLEU's, and `evaluate` modules."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from datasets import Value

from twmd_registry.engine.distributed import score_over_ranks
from twmd_registry.engine.pairs import Segments, check_segments
from twmd_registry.engine.result import Counts, ScoreSet
from twmd_registry.engine.scorer import Scorer, scorer
from twmd_registry.errors import InputError, SpecError, menu, warn
from twmd_registry.plugins.sacrebleu.compare import compare_systems
from twmd_registry.plugins.transformers.ranks import on_first_process
from twmd_registry.record.comparison import MetricColumn
from twmd_registry.registry.ensemble import split_name
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName, Output
from twmd_registry.registry.signature import Signature

BESIDE = (*Output, *Counts._fields)
"""What our metrics give beside their score."""


class PanelScores(NamedTuple):
    """What the metrics say of one evaluation.

    Attributes:
        values: Finite numbers by key: a metric's name for its score, ``NAME_precision``, ``NAME_truncated`` and the
            like
            for what else it gives.
        signatures: By metric, of those that have one.
        score_sets: Of our metrics.
        segments: What was scored; None where it was not kept.
        seconds: Wall time.
        lexical: SacreBLEU's metrics, as a record takes them.
    """

    values: dict[str, float]
    signatures: dict[str, str]
    score_sets: tuple[ScoreSet, ...]
    segments: Segments | None
    seconds: float
    lexical: tuple[MetricColumn, ...]


class MetricPanel(NamedTuple):
    """Metrics by the names of their scores.

    Attributes:
        ours: Scorers.
        lexical: SacreBLEU's, by the names of its command line.
        modules: Loaded `evaluate` modules, or whatever has such a ``compute``.
    """

    ours: dict[str, Scorer]
    lexical: dict[str, str]
    modules: dict[str, Any]

    def score(self, predictions: Sequence[str], references: Any) -> PanelScores:
        """Score one evaluation, every text encoded once per model.

        `Trainer` calls every process with all texts, and each needs the same numbers: to choose the best checkpoint, or
            to stop. Each scores
        its share by our metrics; the others are not made to be shared, and are the first process's.

        Args:
            predictions: One text per row; the same in every process.
            references: As for `Scorer.score`; likewise.

        Returns:
            What every metric gives: ours to 1, SacreBLEU's to 100, others on their own scale.

        Raises:
            InputError: The texts cannot be scored; names the row, or the metric that refused them.
            ModelError: As for `Scorer.score`.
            SpecError: Two scores have one key.
            TwmdError: As for `score_over_ranks`.

        Warns:
            TwmdWarning: A number that is not finite, which is left out.
        """
        started, segments = time.perf_counter(), check_segments(predictions, references)
        sets = tuple(score_over_ranks(list(self.ours.values()), *segments)) if self.ours else ()
        theirs = on_first_process(lambda: self._theirs(segments))
        found = [*_ours(dict(zip(self.ours, sets, strict=True))), *theirs.values]
        signatures = {name: str(one.signature) for name, one in zip(self.ours, sets, strict=True)} | theirs.signatures
        return PanelScores(_finite(found), signatures, sets, segments, time.perf_counter() - started, theirs.lexical)

    def _theirs(self, segments: Segments) -> _OtherScores:
        """What SacreBLEU's metrics and `evaluate` modules give."""
        found, signatures, columns = list[tuple[str, float]](), dict[str, str](), tuple[MetricColumn, ...]()
        if self.lexical:
            columns = compare_systems(
                [("", segments.predictions)], segments.references, list(self.lexical.values())
            ).columns
            found += [(name, column.cells[0].score) for name, column in zip(self.lexical, columns, strict=True)]
            signatures |= {name: column.signature for name, column in zip(self.lexical, columns, strict=True)}
        for name, module in self.modules.items():
            found += _of_module(name, module, segments)
        return _OtherScores(found, signatures, columns)


class _OtherScores(NamedTuple):
    """Scores by key and signatures by metric, of what is not ours; SacreBLEU's as columns, too."""

    values: list[tuple[str, float]]
    signatures: dict[str, str]
    lexical: tuple[MetricColumn, ...]


def make_panel(metrics: Iterable[Any] | Mapping[str, Any], keep_references: int | str = 0) -> MetricPanel:
    """Sort metrics by who computes them.

    Args:
        metrics: Metrics, or metrics by the names that their scores shall have. One of the catalogue (``"twmd"``,
            ``"ensemble(stsscore,sbert)"``), a signature, a scorer, one of SacreBLEU (``"bleu"``), or one of `evaluate`,
            loaded or by name.
        keep_references: As in `RunOptions`, for the scorers that are made here.

    Raises:
        SpecError: No metric, something that is none, or two of one name.
    """
    if isinstance(metrics, str) or not isinstance(metrics, Iterable):
        raise SpecError(f"metrics must be a list of metrics, or a dict of metrics by name; got {metrics!r:.60}.")
    panel = MetricPanel({}, {}, {})
    pairs = metrics.items() if isinstance(metrics, Mapping) else ((None, one) for one in metrics)
    for given, metric in pairs:
        usual, kind, value = _sort(metric, keep_references)
        name = given or usual
        if not isinstance(name, str):
            raise SpecError(f"{metric!r:.60} has no name: give a dict {{name: metric}}.")
        if any(name in names for names in panel):
            raise SpecError(f"two metrics would be called {name!r}: give a dict {{name: metric}}.")
        getattr(panel, kind)[name] = value
    if not any(panel):
        raise SpecError("there is no metric to score by.")
    return panel


def _sort(metric: Any, keep_references: int | str) -> tuple[str | None, str, Any]:
    """A metric's usual name, the field of `MetricPanel` where it belongs, and what stands there."""
    if isinstance(metric, str) and metric in LEXICAL_NAMES:
        return metric, "lexical", metric
    if isinstance(metric, Signature) or (
        isinstance(metric, str) and ("|" in metric or split_name(metric)[0] in set(MetricName))
    ):
        metric = scorer(metric, keep_references=keep_references)
    elif isinstance(metric, str):
        metric = _load(metric)
    # Our own metrics in the faces to other frameworks are scorers, too.
    own = metric if isinstance(metric, Scorer) else getattr(metric, "scorer", None)
    if isinstance(own, Scorer):
        return str(own.requested.metric), "ours", own
    if not callable(getattr(metric, "compute", None)):
        raise SpecError(
            f"{metric!r:.60} is no metric: expected a name, a signature, a scorer, or a loaded evaluate module."
        )
    return getattr(metric, "name", None), "modules", metric


def _load(name: str) -> Any:
    import evaluate

    try:
        return evaluate.load(name)
    except Exception as error:  # whatever the library stumbles over, the user gets one line
        reason, choices = str(error).strip().partition("\n")[0], menu(name, [*MetricName, *LEXICAL_NAMES])
        raise SpecError(
            f"there is no metric {name!r} here, and evaluate cannot load it ({reason}); {choices}."
        ) from error


def _ours(sets: Mapping[str, ScoreSet]) -> Iterable[tuple[str, float]]:
    """The score of every metric, its sides, and the counts of its texts."""
    for name, scores in sets.items():
        yield name, scores.score
        whole = scores.as_dict()
        yield from ((f"{name}_{key}", float(whole[key])) for key in BESIDE if key in whole)


def _of_module(name: str, module: Any, segments: Segments) -> Iterable[tuple[str, float]]:
    """Every single number that a module gives."""
    try:
        found = module.compute(
            predictions=list(segments.predictions), references=_references_for(name, module, segments)
        )
    except SpecError:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"{name} cannot score these texts: {reason:.200}") from error
    if not isinstance(found, Mapping):
        raise SpecError(f"{name} gives no dict of scores but {found!r:.60}.")
    for key, value in found.items():
        number = value.item() if hasattr(value, "item") and np.ndim(value) == 0 else value
        if isinstance(number, Real) and not isinstance(number, bool):
            yield (name if key == name else f"{name}_{key}"), float(number)


def _references_for(name: str, module: Any, segments: Segments) -> list[Any]:
    """References in the form that a module says it takes: a text per row, or a list of texts.

    One that says nothing gets texts where every row has one reference.

    Raises:
        SpecError: It takes one reference per row, and a row has several.
    """
    single = all(len(texts) == 1 for texts in segments.references)
    forms = getattr(module, "features", None) or []
    kinds = [one["references"] for one in (forms if isinstance(forms, list) else [forms]) if "references" in one]
    takes_text = not kinds or any(isinstance(kind, Value) for kind in kinds)
    takes_lists = not kinds or any(not isinstance(kind, Value) for kind in kinds)
    if single and takes_text:
        return [texts[0] for texts in segments.references]
    if takes_lists:
        return segments.references
    row = next(i for i, texts in enumerate(segments.references) if len(texts) > 1)
    raise SpecError(
        f"{name} takes one reference per row, and row {row + 1} has {len(segments.references[row])}: leave the "
        "metric out, or give one."
    )


def _finite(found: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Scores by key; what is not finite is left out."""
    values: dict[str, float] = {}
    for key, value in found:
        if key in values:
            raise SpecError(f"two scores would be called {key!r}: give a dict {{name: metric}} with other names.")
        if math.isfinite(value):
            values[key] = value
        else:
            warn(f"{key} is {value} and is left out of this evaluation.")
    return values
