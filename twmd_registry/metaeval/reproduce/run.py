"""Computing one of the TWMD paper's tables again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import SpecError
from twmd_registry.metaeval.published import ModelRows, PublishedTable, published
from twmd_registry.metaeval.reproduce.layout import Reproduction
from twmd_registry.metaeval.reproduce.protocols import groups_of, in_order, read_data, sts, wmt
from twmd_registry.metaeval.reproduce.rows import LANGUAGE_PAIRS, PaperTable, paper_table, spec_of_row
from twmd_registry.registry.names import EMBEDDED_MODEL, MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec


def reproduce(
    table: str,
    data: Path,
    *,
    model: str = EMBEDDED_MODEL,
    layer: int | None = None,
    options: RunOptions | None = None,
    progress: Callable[[int], None] | None = None,
) -> Reproduction:
    """Compute a table of the TWMD paper (Chen et al. 2020) with any model; temperatures are the paper's.

    Args:
        table: One of `TABLES`.
        data: The folder of the rated data (`read_data`).
        model: The encoder; one of the paper's is compared with the paper's own numbers of it, any other with those of its first model.
        layer: The hidden state; when not given, the paper's for a model of the paper, else that of the model's preset or rule. Table 5 reads the
            layer below and the layer above it.
        options: Where and how fast.
        progress: Called with the number of segments scored.

    Raises:
        SpecError: No such table, or a layer that the model does not have.
        FileError: Data are missing or damaged, or a language pair has no row.
        ModelError: The model is not to be had.

    Warns:
        TwmdWarning: Rows or language pairs that were left out, and correlations that are undefined.
    """
    paper, theirs = paper_table(table), published(table)
    rated = read_data(paper, data)
    if paper.year:
        rated = [groups_of(rated[0], LANGUAGE_PAIRS[paper.year], f"wmt{paper.year}")]
    options, rows = options or RunOptions(), theirs.blocks[0].rows
    with ExitStack() as stack:
        layers = _layers(paper, theirs, model, layer, stack.enter_context(twmd_of(model, layer, options)))
        scorers = [stack.enter_context(Scorer(spec_of_row(row, paper, model, one), options)) for one in layers for row in rows]
        signatures = [scorer.signature for scorer in scorers]  # loads the model: what cannot be fails here
        found = (wmt if paper.year else sts)(scorers, rated, paper.statistics, progress)
        name = scorers[0].spec.model or model
    values = in_order(found, theirs.columns).reshape(len(layers), len(rows), len(theirs.columns), 2)
    ours = tuple(ModelRows(name, one, rows, own) for one, own in zip(layers, values, strict=True))
    return Reproduction(table, paper.statistics, found.segments, ours, dict(zip(rows, signatures, strict=False)), theirs)


def twmd_of(model: str, layer: int | None, options: RunOptions) -> Scorer:
    """Who knows which layer a model is read at when nobody says."""
    return Scorer(make_spec(MetricName.TWMD, model=model, layer=layer), options)


def layer_of(twmd: Scorer) -> int:
    """The one layer that a scorer reads. Loads the model.

    Raises:
        SpecError: It reads several, or the model does not have it.
        ModelError: The model is not to be had.
    """
    layer = twmd.spec.layer
    if not isinstance(layer, int):
        raise SpecError(f"what a paper prints is of one layer, not of {layer}.")
    return layer


def _layers(paper: PaperTable, theirs: PublishedTable, model: str, layer: int | None, twmd: Scorer) -> list[int]:
    """The layers of a table, ascending."""
    own = [block.layer for block in theirs.blocks if block.model == model]
    if own and layer is None:
        return own
    middle = layer_of(twmd)
    return [middle + offset for offset in paper.offsets]
