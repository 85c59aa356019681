"""The base class of the `evaluate` modules: checks rows, keeps the specification and calls the engine."""

from __future__ import annotations

import abc
import importlib
import inspect
import sys
import threading
import traceback
from types import MethodType
from typing import Any, NamedTuple

import datasets
import evaluate

from twmd_registry.engine.pairs import check_rows, check_segments
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import InputError, SpecError
from twmd_registry.plugins.bert_score import read_arguments
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import split_options
from twmd_registry.registry.spec import BERTSCORE, make_spec

EVALUATE_SETTINGS = frozenset(inspect.signature(evaluate.EvaluationModule.__init__).parameters)
"""Keywords of `evaluate`; every other keyword must be one of our keys or run options."""


class _Rows(NamedTuple):
    predictions: list[str]
    references: list[list[str]]


class RegistryMetric(evaluate.Metric, abc.ABC):  # type: ignore[misc]
    """One metric of the registry as an `evaluate.Metric`.

    ``evaluate.load`` and ``compute`` take every key of the specification and every run option; ``config_name`` is the
    preset. Arguments of ``compute`` apply to that call only.

    Rows stay in memory regardless of `evaluate`'s ``keep_in_memory``, because a file would leave its lock behind if a
    computation failed. With ``num_process`` they are in files, through which processes gather them. A metric can be
    copied and pickled with its rows, and used by several threads.
    """

    @property
    @abc.abstractmethod
    def metric(self) -> MetricName:
        """The metric."""

    def __init__(self, config_name: str | None = None, preset: str | None = None, **settings: Any) -> None:
        """Check and store the settings; no model is loaded before `compute`.

        Args:
            config_name: A preset.
            preset: The same, under its usual name.
            settings: Keys of the specification, run options, and `evaluate`'s own settings.

        Raises:
            SpecError: An unknown preset or key, or an impossible value.
        """
        if config_name and preset and config_name != preset:
            raise SpecError(f"two presets, {config_name!r} and preset={preset!r}: pass one of them.")
        config_name = config_name or preset
        self._preset = config_name
        self._settings = {name: settings.pop(name) for name in tuple(settings) if name not in EVALUATE_SETTINGS}
        self.scorer = self._make_scorer(self._settings)
        super().__init__(config_name=config_name, **settings)
        self._rows = _Rows([], [])
        self._lock = threading.RLock()
        if any(frame.f_globals.get("__name__") == "lm_eval.api.registry" for frame, _ in traceback.walk_stack(None)):
            # lm_eval would fail for a metric without an aggregation. With ours it calls `compute`, which explains.
            importlib.import_module("twmd_registry.plugins.lm_eval")

    def _make_scorer(self, settings: dict[str, Any]) -> Scorer:
        metric = MetricName(self.metric)
        if self._preset == BERTSCORE:
            settings = read_arguments(settings)
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

    def __len__(self) -> int:
        """Return the number of added rows."""
        return len(self._rows.predictions) if self.num_process == 1 else super().__len__()

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the lock, with the rows.

        Raises:
            SpecError: There are rows for several processes, which are in a locked file.
        """
        with self._lock:
            if self.num_process > 1 and len(self):
                raise SpecError("rows for several processes are in a locked file: compute() before you copy a metric.")
            state: dict[str, Any] = vars(self) | {"_rows": _Rows([*self._rows.predictions], [*self._rows.references])}
            del state["_lock"]
            return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore everything, with a new lock."""
        self.__dict__.update(state, _lock=threading.RLock())
        for name in ("compute", "add", "add_batch"):  # `evaluate` binds these to every object, with longer docstrings
            setattr(self, name, MethodType(state[name].__func__, self))

    def add_batch(self, *, predictions: Any = None, references: Any = None, **other: Any) -> None:
        """Add predictions and references; every row is checked immediately. Sources are passed to `compute`.

        Raises:
            InputError: The texts cannot be scored; names the row.
        """
        if other:
            names = ", ".join(other)
            raise InputError(f"Bad inputs for evaluation module: {names}. Rows are predictions and references.")
        with self._lock:
            texts, targets = self._check(predictions, references)
            if self.num_process == 1:
                self._rows.predictions.extend(texts)
                self._rows.references.extend(targets)
            else:
                super().add_batch(predictions=texts, references=targets)

    def _check(self, predictions: Any, references: Any) -> tuple[list[str], list[list[str]]]:
        """Return checked rows; references are empty lists if `compute` gets sources instead."""
        if references is None:
            texts = check_rows(predictions, "predictions", first_row=len(self))
            if not texts:
                raise InputError("nothing to score: predictions are empty.")
            return texts, [[] for _ in texts]
        drop_missing = self.scorer.options.drop_missing
        checked = check_segments(predictions, references, first_row=len(self), drop_missing=drop_missing)
        return checked.predictions, [*checked.references]

    def add(
        self,
        *,
        prediction: Any = None,
        reference: Any = ...,
        predictions: Any = None,
        references: Any = None,
        **other: Any,
    ) -> None:
        """Add one prediction with its reference or list of references.

        `evaluate.combine` uses the plural names. A reference of None is empty, as in a list. Without a reference,
        `compute` needs sources.

        Raises:
            InputError: The texts cannot be scored; names the row.
        """
        text = predictions if prediction is None else prediction
        targets = None if reference is ... and references is None else [references if reference is ... else reference]
        self.add_batch(predictions=[text], references=targets, **other)

    def compute(
        self, *, predictions: Any = None, references: Any = None, sources: Any = None, **keys: Any
    ) -> dict[str, Any] | None:
        """Score everything that was added, or the texts that are passed.

        Args:
            predictions: As for `Scorer.score`.
            references: As for `Scorer.score`.
            sources: As for `Scorer.score`, for everything that was added.
            keys: Keys of the specification and run options, for this call only.

        Returns:
            The corpus score under the metric's name; corpus precision, recall and f1 for two-sided metrics; numbers of
            segments and of truncated, empty, unknown and repeated texts (`Counts`); per-segment scores; the signature.
            None on every process but the first.

        Raises:
            InputError: The texts cannot be scored, there are none, or lm_eval calls it without our registration.
            SpecError: An unknown key or an impossible value.

        Warns:
            TwmdWarning: As for `Scorer.score`.
        """
        if sys._getframe(1).f_globals.get("__name__") == "lm_eval.api.task":  # noqa: SLF001 (inspect's is slower)
            how = "import twmd_registry.plugins.lm_eval before the task is loaded, or name its corpus_score in YAML"
            raise InputError(f"lm_eval calls evaluate's metrics pair by pair: {how}, without hf_evaluate.")
        self._make_scorer(self._settings | keys)
        if sources is not None:
            keys["sources"] = check_rows(sources, "sources")
        with self._lock:  # every thread scores its own rows
            if predictions is not None or references is not None:
                self.add_batch(predictions=predictions, references=references)
            elif not len(self):
                raise InputError("nothing to score: pass predictions and references, or add_batch() them first.")
            if self.num_process > 1:
                result: dict[str, Any] | None = super().compute(**keys)
                return result
            rows, self._rows = self._rows, _Rows([], [])
        return self._compute(*rows, **keys)

    def _compute(
        self, predictions: list[str], references: list[list[str]], sources: list[str] | None = None, **keys: Any
    ) -> dict[str, Any]:
        scorer = self._make_scorer(self._settings | keys) if keys else self.scorer
        return scorer.score(predictions, references if any(references) else None, sources).as_dict()

    def close(self) -> None:
        """Release the model. The next `compute` loads it again."""
        self.scorer.close()


INPUTS = """
Args:
    predictions: Generated texts, one per segment.
    references: One text per segment, or a list of texts per segment.
    sources: Source texts, for against=source or both.
    **keys: Keys of the specification, for this call only.

Examples:
"""
