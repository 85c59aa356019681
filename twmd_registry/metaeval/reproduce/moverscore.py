"""Computing one of the MoverScore paper's tables again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np

from twmd_registry.engine.scorer import Scorer, score_all
from twmd_registry.errors import SpecError, menu
from twmd_registry.judgments.generation import DATA_TO_TEXT_RATINGS, read_data_to_text
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.wmt import read_wmt
from twmd_registry.metaeval.group_correlation import correlations
from twmd_registry.metaeval.published import NO_MODEL, published_rows
from twmd_registry.metaeval.reproduce.moverscore_layout import MoverReproduction, OurRow
from twmd_registry.metaeval.reproduce.moverscore_rows import MOVER_TABLES, RowModel, layer_text
from twmd_registry.metaeval.reproduce.protocols import AVERAGE, ColumnValues, groups_of, in_order, read_sets, wmt
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import EMBEDDED_MODEL, MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec

WMT = "wmt/wmt17.jsonl"
DATA_TO_TEXT = {"BAGEL": "d2t/bagel.jsonl", "SFHOTEL": "d2t/sfhotel.jsonl"}
RATINGS = dict(zip(("Inf", "Nat", "Qual"), DATA_TO_TEXT_RATINGS, strict=True))
"""The paper's names of the ratings."""


def reproduce_moverscore(
    table: str,
    data: Path,
    *,
    model: str = EMBEDDED_MODEL,
    layer: int | None = None,
    options: RunOptions | None = None,
    progress: Progress | None = None,
) -> MoverReproduction:
    """Compute a table of the MoverScore paper (Zhao et al. 2019) with any model, as far as its rows are metrics of the catalogue.

    Args:
        table: One of `MOVER_TABLES`.
        data: The folder of the rated data: holds ``wmt/wmt17.jsonl``, or ``d2t/bagel.jsonl`` and ``d2t/sfhotel.jsonl`` for Table 3.
        model: The encoder; which of the paper's it is compared with, `RowModel.near` says.
        layer: The hidden state of Table 5; without one, three quarters of the depth, as the paper's 9 of 12. The others read the last five.
        options: Where and how fast.
        progress: Called with the number of segments scored.

    Raises:
        SpecError: No such table, or a layer that the model or the table does not have.
        FileError: Data are missing or damaged, or a language pair has no row.
        ModelError: The model is not to be had.

    Warns:
        TwmdWarning: Rows or language pairs that were left out, and correlations that are undefined.
    """
    if table not in MOVER_TABLES:
        raise SpecError(f"no table {table!r} to compute again; {menu(table, MOVER_TABLES)}.")
    paper, wanted, options = published_rows(table), MOVER_TABLES[table], options or RunOptions()
    score = _MEASURES.get(table, translations)(data, paper.columns)
    with ExitStack() as stack:
        encoder = stack.enter_context(depth_probe(model, options))
        described = describe(encoder, model, layer)
        scorers = {name: stack.enter_context(Scorer(spec, options)) for name, spec in wanted.specs(described).items()}
        signatures = {name: scorer.signature for name, scorer in scorers.items()}  # loads the model: what cannot be fails here
        found = score(list(scorers.values()), (wanted.statistic,), progress)
        read = {name: layer_text(scorer.spec) for name, scorer in scorers.items()}
        name = encoder.spec.model or model
    values = in_order(found, paper.columns)[:, :, 0]
    rows = tuple(OurRow(metric, read[metric], own) for metric, own in zip(scorers, values, strict=True))
    encoders = tuple(dict.fromkeys(row.model for row in paper.rows if row.model != NO_MODEL))
    near = described.near(encoders)
    return MoverReproduction(table, wanted.statistic, name, found.segments, rows, signatures, paper, near, wanted.decimals, tuple(scorers))


def depth_probe(model: str, options: RunOptions) -> Scorer:
    """Who knows how deep a model is; open it for as long as the model is used."""
    return Scorer(make_spec(MetricName.MOVERSCORE, "wmd", model=model, layer="last:1"), options)


def describe(probe: Scorer, model: str, layer: int | None) -> RowModel:
    """What is known of a model; loads it."""
    return RowModel(model, int(probe.spec.layer or 0), layer)


Measure = Callable[[Sequence[Scorer], Sequence[str], Progress | None], ColumnValues]
"""From scorers and statistics to their agreement with people."""


def translations(folder: Path, columns: Sequence[str]) -> Measure:
    """WMT17: correlations within each of a table's language pairs, and their mean.

    Each pair is scored by itself, so idf is of its own texts.

    Args:
        folder: Of the rated data.
        columns: Of the table.

    Raises:
        FileError: As for `read_sets` and `groups_of`.
    """
    (rated,) = read_sets([WMT], read_wmt, folder)
    chosen = groups_of(rated, [column for column in columns if column != AVERAGE], "wmt17")
    return lambda scorers, statistics, progress: wmt(scorers, [chosen], statistics, progress)


def utterances(folder: Path, columns: Sequence[str]) -> Measure:
    """BAGEL and SFHOTEL: correlations over all utterances of a set, by rating; the best of several references counts.

    The paper does not say how several references become one score. A reference that a row has twice is read once: the best is the same.

    Args:
        folder: Of the rated data.
        columns: Of the table, each a set and a rating.

    Raises:
        FileError: As for `read_sets`.
    """
    sets = {}
    for column in columns:
        name, _, rating = column.partition(" ")
        (sets[column],) = read_sets([DATA_TO_TEXT[name]], partial(read_data_to_text, rating=RATINGS[rating]), folder)
    distinct = {column: rated._replace(references=[list(dict.fromkeys(own)) for own in rated.references]) for column, rated in sets.items()}
    return lambda scorers, statistics, progress: _measure_sets(scorers, distinct, statistics, progress)


def _measure_sets(scorers: Sequence[Scorer], sets: dict[str, RatedSegments], statistics: Sequence[str], progress: Progress | None) -> ColumnValues:
    """A column per set; sets of the same texts, rated otherwise, are scored once."""
    scored: dict[tuple[tuple[str, ...], ...], list[Sequence[float]]] = {}
    columns = []
    texts_of = {name: (tuple(rated.predictions), *map(tuple, rated.references)) for name, rated in sets.items()}
    expect(progress, sum(len(predictions) for predictions, *_ in set(texts_of.values())))
    for name, rated in sets.items():
        texts = texts_of[name]
        if texts not in scored:
            scored[texts] = [one.scores for one in score_all(scorers, rated.predictions, rated.references, progress=progress)]
        columns.append(100 * correlations(scored[texts], rated.ratings, statistics, name))
    return ColumnValues({name: len(rated.ratings) for name, rated in sets.items()}, np.array(columns).swapaxes(0, 1))


_MEASURES: dict[str, Callable[[Path, Sequence[str]], Measure]] = {"moverscore-table3": utterances}
"""The tables that are not of WMT."""
