"""Our metrics for torchmetrics: ``update``, ``compute``, ``reset``, and states gathered over processes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from twmd_registry.engine.pairs import Segments, check_segments
from twmd_registry.engine.result import Counts
from twmd_registry.engine.scorer import Scorer, load, score_segments
from twmd_registry.engine.shared_passes import check_keeps_rows
from twmd_registry.errors import InputError, check_types, missing_extra
from twmd_registry.plugins import metric_classes
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName

try:
    import torchmetrics
except ImportError as error:
    raise missing_extra("metrics for torchmetrics need it", "torchmetrics") from error

TORCHMETRICS_SETTINGS = frozenset(
    {"compute_on_cpu", "dist_sync_on_step", "process_group", "dist_sync_fn", "distributed_available_fn"}
    | {"sync_on_compute", "compute_with_cache"}
)
"""Settings of torchmetrics; every other keyword must be one of our keys or run options."""


class Row(NamedTuple):
    """A segment with its position in the data set, None without positions."""

    position: int | None
    prediction: str
    references: list[str]
    source: str | None


class TorchMetric(torchmetrics.Metric):  # type: ignore[misc]
    """One metric of the registry as a `torchmetrics.Metric`.

    ``update`` keeps texts, and ``compute`` scores all of them together, with the same value as `Scorer.score`. Under
    ``torch.distributed`` every process gathers all texts in rank order, and computes the same value. With
    positions in ``update``, texts are in the data's order, which matters for ``centering=batch``, and segments that a
    sampler repeats to even out the processes count once.

    ``forward`` (calling the metric) scores only the batch and keeps its texts. A `torchmetrics.MetricCollection` keeps
    the texts once for all its metrics. ``.to(device)`` moves the texts; the encoder runs on the run option ``device``.

    ``counts`` has the truncated, empty, unknown and repeated texts of the latest ``compute`` (`Counts`); None before
    the first ``compute`` and after ``reset``.

    >>> twmd = TWMD(layer=6)
    >>> twmd.update(["it rains", "a cat"], [["it rains"], ["a cat", "the cat"]])
    >>> round(twmd.compute().item(), 4)
    1.0
    """

    METRIC: MetricName
    is_differentiable: bool = False
    higher_is_better: bool = True
    full_state_update: bool = False
    plot = torchmetrics.Metric._plot  # noqa: SLF001 (as torchmetrics' own metrics do)
    texts: list[torch.Tensor]

    @check_types(as_dict=bool)
    def __init__(self, preset: str | None = None, *, as_dict: bool = False, **settings: Any) -> None:
        """Create the metric; no model is loaded yet.

        Args:
            preset: A preset's name.
            as_dict: Whether ``compute`` returns all results instead of only the corpus score.
            settings: Keys of the specification, run options, and torchmetrics' settings.

        Raises:
            SpecError: As for `twmd_registry.load`.
        """
        keys = {name: value for name, value in settings.items() if name not in TORCHMETRICS_SETTINGS}
        metric_scorer = load(self.METRIC, preset, **keys)
        check_keeps_rows(metric_scorer)
        super().__init__(**{name: value for name, value in settings.items() if name in TORCHMETRICS_SETTINGS})
        self.scorer: Scorer = metric_scorer
        self.as_dict = as_dict
        self.counts: Counts | None = None
        self.add_state("texts", default=[], dist_reduce_fx="cat")

    @property
    def signature(self) -> str:
        """The signature without the number of references. Loads the model."""
        return self.scorer.signature

    @property
    def plot_lower_bound(self) -> float | None:
        """The lowest possible value; None without a bound."""
        return None if self.scorer.requested.baseline else CATALOGUE[self.METRIC].lowest

    @property
    def plot_upper_bound(self) -> float | None:
        """The highest possible value; None without a bound."""
        return None if self.scorer.requested.baseline else CATALOGUE[self.METRIC].highest

    def update(
        self,
        preds: str | Sequence[str],
        target: str | Sequence[str] | Sequence[Sequence[str]] | None = None,
        positions: torch.Tensor | Sequence[int] | int | None = None,
        sources: str | Sequence[str] | None = None,
    ) -> None:
        """Store segments for ``compute``; every row is checked immediately.

        Args:
            preds: Predictions, one per segment, or a single text.
            target: One text or list of texts per segment. For a single prediction, its reference or a list of them.
                None with ``against=source``.
            positions: The segments' indices in the data set, in whose order ``compute`` scores. A repeated
                position counts once.
            sources: Source texts, one per segment; for a single prediction, its source.

        Raises:
            InputError: The texts cannot be scored; names the row of this call.
        """
        single = isinstance(preds, str)
        columns = ([texts] if single and texts is not None else texts for texts in (preds, target, sources))
        rows = make_rows(*columns, positions=positions)
        self.texts.append(write_rows(rows, self.device))

    def compute(self) -> Any:
        """Score all kept texts of all processes.

        Returns:
            The corpus score, a scalar tensor. With ``as_dict`` a dict of tensors: the corpus score under the metric's
            name, corpus ``precision``, ``recall`` and ``f1`` of a two-sided metric, the counts of `Counts`, and
            ``scores``, shape (segments,). torchmetrics turns ``scores`` of a single segment into a scalar.

        Raises:
            InputError: There is nothing to score, or positions do not fit.
            SpecError: As for `Scorer.score`.
            ModelError: As for `Scorer.score`.
        """
        # A single tensor once processes are gathered.
        gathered = [self.texts] if isinstance(self.texts, torch.Tensor) else self.texts
        segments = order_rows([row for content in gathered for row in read_rows(content)])
        (scores,) = score_segments([self.scorer], segments)
        self.counts = scores.counts
        if not self.as_dict:
            return self._tensor(scores.score)
        return {name: self._tensor(value) for name, value in scores.as_dict().items() if name != "signature"}

    def reset(self) -> None:
        """Forget the texts and their counts."""
        super().reset()
        self.counts = None

    def _tensor(self, value: float | list[float]) -> torch.Tensor:
        return torch.tensor(value, dtype=self.dtype, device=self.device)

    def sync(self, *args: Any, **settings: Any) -> None:
        """Gather the texts of all processes. A process without texts sends no bytes, not an empty float tensor."""
        if not len(self.texts):
            self.texts = [write_rows([], self.device)]
        super().sync(*args, **settings)

    def close(self) -> None:
        """Release the model. The next ``compute`` loads it again."""
        self.scorer.close()


def collate_rows(rows: Sequence[Any]) -> Any:
    """Collate a batch for a `torch.utils.data.DataLoader`, whose default transposes lists of references.

    Args:
        rows: Dicts or tuples of columns.

    Returns:
        A dict or tuple of columns. Texts and lists are kept, one per row; the rest is collated as by default.

    >>> collate_rows([("a", ["b", "c"]), ("d", ["e", "f"])])
    (['a', 'd'], [['b', 'c'], ['e', 'f']])
    """
    first = rows[0]
    if isinstance(first, Mapping):
        return {name: _collate_column([row[name] for row in rows]) for name in first}
    if isinstance(first, tuple):
        return tuple(map(_collate_column, zip(*rows, strict=True)))
    return _collate_column(rows)


def _collate_column(values: Sequence[Any]) -> Any:
    """Return a column of texts, lists or tuples of texts, or None unchanged; collate anything else as by default."""
    if all(value is None or isinstance(value, str | list) or _holds_texts(value) for value in values):
        return [list(value) if isinstance(value, tuple) else value for value in values]
    collate = collate_rows if isinstance(values[0], Mapping | tuple) else torch.utils.data.default_collate
    return collate([*values])


def _holds_texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(text is None or isinstance(text, str) for text in value)


def make_rows(
    predictions: object, references: object, sources: object, *, positions: torch.Tensor | Sequence[int] | int | None
) -> list[Row]:
    """Return checked segments with their positions, or with None."""
    segments = check_segments(predictions, references, sources)
    by_segment: Sequence[str | None] = segments.sources or [None] * len(segments.predictions)
    if positions is None:
        return [Row(None, *segment) for segment in zip(*segments[:2], by_segment, strict=True)]
    numbers = np.atleast_1d(positions.cpu() if isinstance(positions, torch.Tensor) else np.asarray(positions))
    if numbers.ndim > 1 or not np.issubdtype(numbers.dtype, np.integer) or (numbers < 0).any():
        raise InputError(f"positions must be non-negative integers, one per prediction; got {str(positions)[:60]}.")
    if len(numbers) != len(segments.predictions):
        lengths = f"{len(segments.predictions)} predictions but {len(numbers)} positions"
        raise InputError(f"there are {lengths}: pass one per prediction.")
    return list(map(Row, numbers.tolist(), *segments[:2], by_segment))


def write_rows(rows: Sequence[Row], device: torch.device) -> torch.Tensor:
    """Return segments as lines of UTF-8 JSON, which can be concatenated; shape (bytes,), uint8."""
    lines = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    return torch.from_numpy(np.array(bytearray(lines.encode()), dtype=np.uint8)).to(device)


def read_rows(content: torch.Tensor) -> list[Row]:
    """Read segments from `write_rows`, in any dtype, because torchmetrics' ``set_dtype`` converts states.

    >>> row = Row(None, "it rains", ["rain"], None)
    >>> read_rows(write_rows([row], torch.device("cpu")).bfloat16()) == [row]
    True
    """
    text = bytes(content.to("cpu", torch.uint8).numpy()).decode()
    return [Row(*json.loads(line)) for line in text.split("\n")[:-1]]


def order_rows(rows: Sequence[Row]) -> Segments:
    """Return segments in the order of the data, each position once; without positions the order is kept."""
    if not rows:
        raise InputError("nothing to score: update() with predictions and references first.")
    positioned = {row.position: row for row in rows if row.position is not None}
    if positioned and any(row.position is None for row in rows):
        raise InputError("some segments came with positions and others without: pass them in every update().")
    for row in rows:
        if row.position is not None and positioned[row.position] != row:
            hint = "a position is a segment's index in the data set"
            raise InputError(f"two segments with different texts came as position {row.position}: {hint}.")
    ordered = [positioned[position] for position in sorted(positioned)] if positioned else rows
    _, predictions, references, sources = map(list, zip(*ordered, strict=True))
    return Segments(predictions, references, None if None in sources else sources)


METRICS = metric_classes(TorchMetric, __name__)
"""Classes by metric. They are also attributes of this module, such as ``TWMD``."""
globals().update({kind.__name__: kind for kind in METRICS.values()})

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[TorchMetric]: ...
