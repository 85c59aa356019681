"""The data of the MoverScore paper's Figures 2 and 3."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from twmd_registry.engine.scorer import Scorer, score_all
from twmd_registry.errors import InputError, warn
from twmd_registry.judgments.rated import select
from twmd_registry.judgments.wmt import read_wmt
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.metaeval.lexical import sentence_bleu, sentence_chrf
from twmd_registry.metaeval.published import NO_MODEL, published_rows
from twmd_registry.metaeval.reproduce.layout import ComputedTable, as_cell, short_name
from twmd_registry.metaeval.reproduce.moverscore import WMT, depth_probe, describe
from twmd_registry.metaeval.reproduce.moverscore_layout import MoverReproduction, OurRow
from twmd_registry.metaeval.reproduce.moverscore_rows import movers
from twmd_registry.metaeval.reproduce.protocols import groups_of, read_sets
from twmd_registry.metaeval.roc import area
from twmd_registry.metaeval.table import FORMATS, TextTable, as_text
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import EMBEDDED_MODEL
from twmd_registry.registry.options import RunOptions

LEXICAL = {"SentBLEU": sentence_bleu, "CHRF++": sentence_chrf}
"""The paper's BEER, a trained metric, is not here."""
RATINGS = "DA"
FIGURE_2, FIGURE_3 = "moverscore-figure2", "moverscore-figure3"


class LanguagePairScores(NamedTuple):
    """The segments of a language pair.

    Attributes:
        ratings: Shape (N,).
        scores: By measure; shape (N,) each.
    """

    ratings: np.ndarray
    scores: dict[str, np.ndarray]


class ScoredPairs(NamedTuple):
    """What both figures are made of.

    Attributes:
        model: The encoder.
        pairs: By language pair.
        layers: By measure with an encoder, the hidden states that it reads.
        signatures: By measure, how its scores were computed; SacreBLEU's have none here.
    """

    model: str
    pairs: dict[str, LanguagePairScores]
    layers: dict[str, str]
    signatures: dict[str, str]


def score_pairs(data: Path, pairs: tuple[str, ...], model: str, options: RunOptions, progress: Progress | None) -> ScoredPairs:
    """Score language pairs of WMT17 by shared words and by movers.

    Args:
        data: The folder of the rated data.
        pairs: The language pairs.
        model: The encoder.
        options: Where and how fast.
        progress: Called with the number of segments scored.

    Raises:
        FileError: Data are missing or damaged, or a language pair has no row.
        ModelError: The model is not to be had.
    """
    (rated,) = read_sets([WMT], read_wmt, data)
    chosen = groups_of(rated, pairs, "wmt17")
    sets = {pair: select(chosen, np.flatnonzero(np.array(chosen.group) == pair)) for pair in pairs}
    with ExitStack() as stack:
        probe = stack.enter_context(depth_probe(model, options))
        scorers = {name: stack.enter_context(Scorer(spec, options)) for name, spec in movers(describe(probe, model, None)).items()}
        signatures = {name: scorer.signature for name, scorer in scorers.items()}
        found = {}
        expect(progress, len(chosen.ratings))
        for pair, own in sets.items():
            moved = score_all(list(scorers.values()), own.predictions, own.references, progress=progress)
            lexical = {name: score(own) for name, score in LEXICAL.items()}
            found[pair] = LanguagePairScores(own.ratings, lexical | {name: np.array(one.scores) for name, one in zip(scorers, moved, strict=True)})
        return ScoredPairs(probe.spec.model or model, found, {name: str(one.spec.layer) for name, one in scorers.items()}, signatures)


class RatingExtremes(NamedTuple):
    """How a measure tells bad texts from good ones.

    Attributes:
        bad: Pearson correlation with the ratings among the lower half of the segments; NaN where undefined.
        good: Among the upper half.
        area: Area under the ROC curve of the lowest against the highest quarter; NaN where undefined.
    """

    bad: float
    good: float
    area: float


def ends(scores: np.ndarray, ratings: np.ndarray) -> RatingExtremes:
    """Look at the two ends of the ratings; segments are ordered by rating, those of one rating in the data's order.

    Args:
        scores: Shape (N,).
        ratings: Shape (N,).
    """
    order = np.argsort(ratings, kind="stable")
    half, quarter = len(order) // 2, len(order) // 4
    extremes = np.r_[order[:quarter], order[len(order) - quarter :]]
    separated = area(scores[extremes], np.arange(2 * quarter) >= quarter) if quarter else float("nan")
    return RatingExtremes(_pearson(scores, ratings, order[:half]), _pearson(scores, ratings, order[half:]), separated)


def _pearson(scores: np.ndarray, ratings: np.ndarray, rows: np.ndarray) -> float:
    try:
        return correlate("pearson", scores[rows], ratings[rows])
    except InputError:
        return float("nan")


@dataclass(frozen=True)
class Distribution(ComputedTable):
    """Figure 2: scores against ratings of de-en, by SentBLEU and by the word mover; the paper prints no numbers.

    Attributes:
        table: The figure's name.
        model: The encoder.
        scored: The segments.
        signatures: By measure.
    """

    table: str
    model: str
    scored: LanguagePairScores
    signatures: dict[str, str]

    @property
    def ends(self) -> dict[str, RatingExtremes]:
        """By measure."""
        return {name: ends(scores, self.scored.ratings) for name, scores in self.scored.scores.items()}

    @property
    def sentence(self) -> str:
        """Whether what the paper says of its figure is so here, in one sentence."""
        words, movers_ = self.ends["SentBLEU"], self.ends["WordMover"]
        lexical = "so it is here" if words.bad > words.good else "here it does not"
        clear = "so it does here" if movers_.area > words.area else "here it does not"
        return (
            f"The paper: SentBLEU agrees better with people on bad texts than on good ones ({lexical}: r = {words.bad:.2f} in the lower half, "
            f"{words.good:.2f} in the upper), and the word mover tells the two ends apart more clearly ({clear}: area under the ROC curve of the "
            f"lowest against the highest quarter {movers_.area:.2f}, SentBLEU {words.area:.2f})."
        )

    def tsv(self) -> str:
        """The table for other programs."""
        return as_text(self.layout(), FORMATS["tsv"])

    def layout(self) -> TextTable:
        """A row per measure."""
        rows = [(name, *(as_cell(np.array([value]), decimals=3) for value in found)) for name, found in self.ends.items()]
        about = f"Zhao et al. (2019), MoverScore, Figure 2: WMT17, de-en, {len(self.scored.ratings)} segments. Here: {short_name(self.model)}."
        return TextTable(about, ("metric", "r, lower half", "r, upper half", "AUC of the outer quarters"), rows)


def figure_2(data: Path, *, model: str = EMBEDDED_MODEL, options: RunOptions | None = None, progress: Progress | None = None) -> Distribution:
    """Measure what Figure 2 shows; arguments and errors as for `score_pairs`."""
    found = score_pairs(data, ("de-en",), model, options or RunOptions(), progress)
    (scored,) = found.pairs.values()
    shown = {name: scored.scores[name] for name in ("SentBLEU", "WordMover")}
    return Distribution(FIGURE_2, found.model, LanguagePairScores(scored.ratings, shown), {"WordMover": found.signatures["WordMover"]})


@dataclass(frozen=True)
class Correlations:
    """Figure 3: how measures correlate with each other and with people, in a close and a distant language pair.

    Attributes:
        names: The measures, the ratings last.
        matrices: By language pair, 100 times Pearson correlations, NaN where undefined; shape (names, names).
        table: The same numbers beside the paper's.
    """

    names: tuple[str, ...]
    matrices: dict[str, np.ndarray]
    table: MoverReproduction


def figure_3(data: Path, *, model: str = EMBEDDED_MODEL, options: RunOptions | None = None, progress: Progress | None = None) -> Correlations:
    """Measure what Figure 3 shows; arguments and errors as for `score_pairs`.

    Warns:
        TwmdWarning: A correlation is undefined; names the language pair.
    """
    paper = published_rows(FIGURE_3)
    found = score_pairs(data, paper.columns, model, options or RunOptions(), progress)
    names = (*LEXICAL, *found.layers, RATINGS)
    matrices = {pair: _matrix(pair, names, scored) for pair, scored in found.pairs.items()}
    rows = [
        OurRow(f"{names[j]} ~ {names[i]}", found.layers.get(names[i]) or found.layers.get(names[j]) or NO_MODEL, values)
        for i in range(len(names))
        for j in range(i)
        for values in [np.array([matrices[pair][i, j] for pair in paper.columns])]
    ]
    ranked = tuple(row.metric for row in rows if row.metric.endswith(f" {RATINGS}"))
    segments = {pair: len(scored.ratings) for pair, scored in found.pairs.items()}
    table = MoverReproduction(FIGURE_3, "pearson", found.model, segments, tuple(rows), found.signatures, paper, NO_MODEL, 0, ranked)
    return Correlations(names, matrices, table)


def _matrix(pair: str, names: tuple[str, ...], scored: LanguagePairScores) -> np.ndarray:
    numbers = [*(scored.scores[name] for name in names[:-1]), scored.ratings]
    found = np.array([[100 * _pearson(one, other, np.arange(len(one))) for other in numbers] for one in numbers])
    if np.isnan(found).any():
        undefined = [name for name, own in zip(names, np.diag(found), strict=True) if np.isnan(own)]
        warn(f"{pair}: no correlation of {', '.join(undefined)}: a correlation of fewer than three rows or with constant numbers is undefined.")
    return found
