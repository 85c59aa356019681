"""Our metrics in sentence-transformers training: as an evaluator, and as a loss on token vectors."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

from scipy import stats
from torch import Tensor, nn
from torch.nn.functional import mse_loss, normalize

from twmd_registry.align import align, combine_sides, similarities
from twmd_registry.comparison.external import check_scores
from twmd_registry.engine.pairs import check_ordered, check_segments, plain
from twmd_registry.engine.scorer import load
from twmd_registry.engine.shared_passes import check_needs_no_sources
from twmd_registry.errors import InputError, SpecError, shown
from twmd_registry.messages import collect_warnings, menu, warn
from twmd_registry.models.load import pick_device
from twmd_registry.models.sentence import moved_module
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import MetricKeys
from twmd_registry.registry.spec import make_spec
from twmd_registry.tensors import PaddedTokens

STATISTICS: dict[str, Callable[..., Any]] = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall": stats.kendalltau,
}

ENCODER_METRICS = tuple(name for name in MetricName if name not in {MetricName.STSSCORE, MetricName.ENSEMBLE})
MIN_SEGMENTS = 3
"""Minimum segments for a correlation, which for two is always 1 or -1."""


class MetricEvaluator(moved_module("evaluation").SentenceEvaluator):  # type: ignore[misc]
    """Correlates a metric's scores, computed with the model in training, with human ratings.

    The model is saved to a temporary folder and scored from there, so `load(metric, model=FOLDER)` gives the same
    scores after training. Results are ``NAME_METRIC_pearson`` (the primary metric), ``..._spearman`` and
    ``..._kendall``; NaN if all scores are equal. The model's card shows them with the signature.

    Attributes:
        signature: The signature of the latest scores; None before the first.
    """

    def __init__(
        self,
        predictions: Iterable[str],
        references: Iterable[str] | Iterable[Iterable[str]],
        ratings: Sequence[float],
        metric: str = "twmd",
        preset: str | None = None,
        *,
        name: str = "",
        **keys: Unpack[MetricKeys],
    ) -> None:
        """Check and store the rated texts; nothing is scored yet.

        Args:
            predictions: Texts, one per segment.
            references: One text or one list of texts per segment.
            ratings: One finite number per segment.
            metric: Any metric with a single encoder: ``twmd``, ``trwmd``, ``moverscore``, ``bertscore_centered``,
                ``wordset_cka``, ``sbert``.
            preset: The preset, regardless of the model's current weights; by default ``published`` for sbert and
                ``paper`` for others.
            name: Prefix of the results' names, to tell several evaluators apart.
            keys: Keys of the metric (``layer=6``) and run options, but no model.

        Raises:
            SpecError: A metric without a single encoder, a preset with an adapter, or keys that it does not use.
            InputError: Texts and ratings do not fit each other, or the ratings have no correlation.
        """
        super().__init__()
        if metric not in ENCODER_METRICS:
            choices = menu(str(metric), ENCODER_METRICS)
            raise SpecError(f"{shown(metric)} does not score with a single encoder, the model in training; {choices}.")
        if fixed := [key for key in ("model", "adapter", "revision") if keys.get(key) is not None]:
            raise SpecError(f"the model in training is scored: leave out {', '.join(fixed)}.")
        self._segments = check_segments(predictions, references)
        rows = check_ordered(ratings, "ratings", "a list of numbers, one per segment")
        numbers = [float(number) if isinstance(number, bool) else number for number in map(plain, rows)]
        check_scores("ratings", numbers, len(self._segments.predictions))
        self._ratings = [float(number) for number in numbers]
        if len(numbers) < MIN_SEGMENTS or len(set(self._ratings)) < 2:
            needs = f"a correlation needs at least {MIN_SEGMENTS} segments, and ratings that vary"
            raise InputError(
                f"{needs}; got {len(numbers)} ratings, from {min(self._ratings):g} to {max(self._ratings):g}."
            )
        self._metric, self._keys = str(metric), dict[str, Any](keys)
        self._preset = preset or ("published" if metric == MetricName.SBERT else "paper")
        # Raises SpecError now, not after an epoch; loads no model.
        scorer = load(self._metric, self._preset, **{**self._keys, "model": "model"})
        check_needs_no_sources(scorer)
        if adapter := scorer.requested.adapter:
            raise SpecError(
                f"preset {self._preset!r} has an adapter, {adapter}, for a model of its own, not for the model in "
                "training: choose a preset without one, such as 'paper'."
            )
        pick_device(scorer.options.device)
        self.signature: str | None = None
        self.name = name
        self.primary_metric = f"{name}_{metric}_pearson" if name else f"{metric}_pearson"
        self._warned = set[str]()

    @property
    def description(self) -> str:
        """The metric's name, for the model's card."""
        return f"{self._metric} against ratings"

    def get_config_dict(self) -> dict[str, Any]:
        """Return the signature, for the model's card."""
        return {"signature": self.signature}

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """Score with the current model, and return the correlations by name."""
        del output_path
        was_training = model.training
        with collect_warnings() as notices, tempfile.TemporaryDirectory() as home:
            folder = Path(home) / "model"
            _plain_copy(model).save_pretrained(str(folder), create_model_card=False)
            with load(self._metric, self._preset, **{**self._keys, "model": str(folder)}) as scorer:
                scores = scorer.score(self._segments.predictions, self._segments.references)
        model.train(was_training)
        for notice in dict.fromkeys(notices):
            if notice not in self._warned:
                self._warned.add(notice)
                warn(notice)
        self.signature = str(scores.signature)
        if len(set(scores.scores)) == 1:
            warn(f"{self._metric}: all {len(scores.scores)} scores are equal, so the correlations are undefined.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.ConstantInputWarning)  # all scores are equal: NaN
            results = {
                f"{self._metric}_{name}": float(statistic(scores.scores, self._ratings).statistic)
                for name, statistic in STATISTICS.items()
            }
        named = self.prefix_name_to_metrics(results, self.name)
        self.store_metrics_in_model_card_data(model, named, epoch, steps)
        return dict(named)


def _plain_copy(model: Any) -> Any:
    """Return a model with its adapters merged, as a folder stores it; the model itself if it has none."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    if not any(isinstance(module, BaseTunerLayer) for module in model.modules()):
        return model
    merged = copy.deepcopy(model)
    for holder in list(merged.modules()):
        for name, module in list(holder.named_children()):
            if isinstance(module, BaseTunerLayer):
                module.merge()
                setattr(holder, name, module.get_base_layer())
    for name in ("model", "auto_model"):
        network = merged[0]._modules.get(name)  # noqa: SLF001
        if hasattr(network, "peft_config"):
            setattr(merged[0], name, network.get_base_model() if hasattr(network, "get_base_model") else network)
        if network is not None and hasattr(network, "_hf_peft_config_loaded"):
            network._hf_peft_config_loaded = False  # noqa: SLF001 (otherwise only the adapter is saved)
    return merged


class WordMoverLoss(nn.Module):
    """The squared error between ratings and the word mover's similarity of two texts' token vectors.

    ``mean_b (sim(X_b, Y_b) - z_b)^2``, with ``sim`` the F1 of twmd or trwmd over ``sqrt(C(X, X) C(Y, Y))`` (TWMD paper,
    Eq. 1). ``load(METRIC, layer=LAST, special="all", unknown="keep", centering="none")`` scores the same.
    Gradients reach the token vectors, so the model learns to align tokens. Equal texts have similarity 1.

    Data have two columns of texts and one of ratings from 0 to 1, as for `CosineSimilarityLoss`.

    Args:
        model: The `SentenceTransformer` to train.
        metric: ``twmd`` (optimal transport) or ``trwmd`` (every token chooses on its own).
        temperature: Of the plan; low values are greedy.
        iterations: Sweeps of the plan, for twmd.
    """

    def __init__(
        self,
        model: Any,
        metric: Literal["twmd", "trwmd"] = "twmd",
        *,
        temperature: float = 0.1,
        iterations: int | None = None,
    ) -> None:
        """Store model and settings; raise SpecError for impossible ones."""
        super().__init__()
        if metric not in (MetricName.TWMD, MetricName.TRWMD):
            choices = menu(str(metric), (MetricName.TWMD, MetricName.TRWMD))
            raise SpecError(f"{shown(metric)} is not a metric with a temperature; {choices}.")
        self.model = model
        keys: dict[str, Any] = {"model": "model", "centering": "none", "temperature": temperature}
        self._spec = make_spec(metric, "paper", **keys, iterations=iterations)

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Return the loss of a batch; `labels` has shape (B,) or (B, 1).

        Raises:
            SpecError: The model has no token vectors.
            InputError: Not two columns of equally many texts, or not one label from 0 to 1 for each pair.
        """
        columns = [*sentence_features]
        if len(columns) != 2:
            raise InputError(f"WordMoverLoss compares two columns of texts, not {len(columns)}.")
        if not all("attention_mask" in column for column in columns):
            raise SpecError("WordMoverLoss trains token vectors, and this model has none: use a Transformer.")
        rows, others = (len(column["attention_mask"]) for column in columns)
        if rows != others or not rows:
            raise InputError(f"WordMoverLoss compares texts in pairs, not {rows} texts with {others}.")
        if not isinstance(labels, Tensor) or labels.shape not in {(rows,), (rows, 1)}:
            found = f"shape {tuple(labels.shape)}" if isinstance(labels, Tensor) else shown(labels)
            raise InputError(
                f"WordMoverLoss needs one label, a rating from 0 to 1, for each of {rows} pairs, not {found}."
            )
        if not bool(((labels >= 0) & (labels <= 1)).all()):
            raise InputError(f"WordMoverLoss needs ratings from 0 to 1 as labels, not {labels.tolist()}: scale them.")
        sides = x, y = [self._read(column) for column in columns]
        selves = (align(similarities(side, side), side, side, self._spec)[0] for side in sides)
        f1 = combine_sides(align(similarities(x, y), x, y, self._spec), tuple(selves))[2]  # type: ignore[arg-type]
        return mse_loss(f1, labels.to(f1.dtype).view(-1))

    def _read(self, features: dict[str, Tensor]) -> PaddedTokens:
        """Return a column's token vectors, scaled to norm 1, with special tokens."""
        found: Mapping[str, Tensor] = self.model(features)
        mask = found["attention_mask"].bool()  # (B, N)
        vectors = normalize(found["token_embeddings"].float(), dim=2)  # (B, N, D)
        return PaddedTokens(mask, mask.to(vectors.dtype), vectors)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings, for the model's card."""
        keys = ("temperature", "iterations", "objective")
        return {"metric": str(self._spec.metric), **{name: getattr(self._spec, name) for name in keys}}
