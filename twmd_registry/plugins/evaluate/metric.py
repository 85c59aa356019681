"""The base class of the `evaluate` modules: it checks rows, keeps the specification and calls the engine."""

from __future__ import annotations

import abc
import importlib
import inspect
import sys
import traceback
from typing import Any

import datasets
import evaluate

from twmd_registry.engine.pairs import check_rows, check_segments
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import InputError, SpecError
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import split_options
from twmd_registry.registry.spec import make_spec

EVALUATE_SETTINGS = frozenset(inspect.signature(evaluate.EvaluationModule.__init__).parameters)
"""Keywords of `evaluate` itself; every other keyword must be one of our keys or run options."""


class RegistryMetric(evaluate.Metric, abc.ABC):  # type: ignore[misc]
    """One metric of the registry as an `evaluate.Metric`.

    Every key of the specification and every run option can be given to ``evaluate.load`` and to ``compute``;
    ``config_name`` is the preset. What is given to ``compute`` holds for that call.
    """

    @property
    @abc.abstractmethod
    def metric(self) -> MetricName:
        """The metric of the registry."""

    def __init__(self, config_name: str | None = None, preset: str | None = None, **settings: Any) -> None:
        """Check and keep the settings; no model is loaded before `compute`.

        Args:
            config_name: A preset.
            preset: The same, by the name it has elsewhere.
            settings: Keys of the specification, run options, and `evaluate`'s own settings.

        Raises:
            SpecError: Unknown preset or key, or a value that is not possible.
        """
        if config_name and preset and config_name != preset:
            raise SpecError(f"two presets were given: {config_name!r} and preset={preset!r}: give one of them.")
        config_name = config_name or preset
        self._preset = config_name
        self._settings = {name: settings.pop(name) for name in tuple(settings) if name not in EVALUATE_SETTINGS}
        self.scorer = self._make_scorer(self._settings)
        # One process needs no files: texts in memory leave no lock behind when a computation fails.
        settings["keep_in_memory"] = settings.get("num_process", 1) == 1
        super().__init__(config_name=config_name, **settings)
        if any(frame.f_globals.get("__name__") == "lm_eval.api.registry" for frame, _ in traceback.walk_stack(None)):
            # lm_eval fails next where a metric has no aggregation: with ours it calls `compute`, which says what to do
            importlib.import_module("twmd_registry.plugins.lm_eval")

    def _make_scorer(self, settings: dict[str, Any]) -> Scorer:
        metric = MetricName(self.metric)
        options, keys = split_options(settings, CATALOGUE[metric].keys)
        return Scorer(make_spec(metric, self._preset, **keys), options)

    def _info(self) -> evaluate.MetricInfo:
        entry, text = CATALOGUE[MetricName(self.metric)], datasets.Value("string")
        documentation = sys.modules[type(self).__module__].__doc__ or ""
        return evaluate.MetricInfo(
            description=documentation,
            citation=entry.citation,
            inputs_description=INPUTS + documentation.partition("Examples:")[2],
            features=[
                datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
                datasets.Features({"predictions": text, "references": text}),
            ],
        )

    def add_batch(self, *, predictions: Any = None, references: Any = None, **other: Any) -> None:
        """Add some predictions and references; every row is checked at once. Sources are for `compute`.

        Raises:
            InputError: The texts cannot be scored; names the row.
        """
        texts, targets = self._check(predictions, references)
        super().add_batch(predictions=texts, references=targets, **other)

    def _check(self, predictions: Any, references: Any) -> tuple[list[str], list[list[str]]]:
        """Return checked rows; without references, which `compute` does not need for sources, these are empty lists."""
        if references is None:
            texts = check_rows(predictions, "predictions", first_row=len(self))
            if not texts:
                raise InputError("there is nothing to score: predictions are empty.")
            return texts, [[] for _ in texts]
        checked = check_segments(predictions, references, first_row=len(self))
        return checked.predictions, checked.references

    def add(
        self,
        *,
        prediction: Any = None,
        reference: Any = None,
        predictions: Any = None,
        references: Any = None,
        **other: Any,
    ) -> None:
        """Add one prediction and its reference, or list of references; `evaluate.combine` uses the names in the plural.

        Raises:
            InputError: The texts cannot be scored; names the row.
        """
        text = predictions if prediction is None else prediction
        target = references if reference is None else reference
        (checked,), (references,) = self._check([text], None if target is None else [target])
        super().add(prediction=checked, reference=references, **other)

    def compute(
        self, *, predictions: Any = None, references: Any = None, sources: Any = None, **keys: Any
    ) -> dict[str, Any] | None:
        """Score everything that was added, or the texts given here.

        Args:
            predictions: As for `Scorer.score`.
            references: As for `Scorer.score`.
            sources: As for `Scorer.score`, of everything that was added.
            keys: Keys of the specification and run options, for this call only.

        Returns:
            The corpus score under the metric's name; corpus precision, recall and f1 for two-sided metrics; numbers of
            segments and of truncated, empty, unknown and repeated texts (`Counts`); scores per segment; the signature.
            None on every process but the first.

        Raises:
            InputError: The texts cannot be scored, or there are none; lm_eval calls it without our registration.
            SpecError: An unknown key or a value that is not possible.

        Warns:
            TwmdWarning: As for `Scorer.score`.
        """
        if sys._getframe(1).f_globals.get("__name__") == "lm_eval.api.task":  # noqa: SLF001 (inspect's is slower)
            how = "import twmd_registry.plugins.lm_eval before the task is loaded, or name its corpus_score in YAML"
            raise InputError(f"lm_eval calls metrics of evaluate pair by pair: {how}, without hf_evaluate.")
        self._make_scorer(self._settings | keys)
        if predictions is None and references is None and self.writer is None:
            raise InputError("there is nothing to score: give predictions and references, or add_batch() them first.")
        if sources is not None:
            keys["sources"] = check_rows(sources, "sources")
        result: dict[str, Any] | None = super().compute(predictions=predictions, references=references, **keys)
        return result

    def _compute(
        self, predictions: list[str], references: list[list[str]], sources: list[str] | None = None, **keys: Any
    ) -> dict[str, Any]:
        scorer = self._make_scorer(self._settings | keys) if keys else self.scorer
        return scorer.score(predictions, references if any(references) else None, sources).as_dict()

    def close(self) -> None:
        """Release the model; the next `compute` loads it again."""
        self.scorer.close()


INPUTS = """
Args:
    predictions: Generated texts, one per segment.
    references: One text per segment, or a list of texts per segment.
    sources: The texts that were translated, for against=source or both.
    **keys: Keys of the specification, for this call only.

Examples:
"""
