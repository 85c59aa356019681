"""Statistics of agreement between scores and ratings, for the data and for many resamples at once.

A resample is a column of weights: how often each row (or item) was drawn. Shapes: N segments, P pairs, B resamples.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.errors import InputError, SpecError
from twmd_registry.messages import menu
from twmd_registry.registry.names import STATISTICS, Statistic

THRESHOLD = 25.0
"""Minimum difference of two ratings, on a scale to 100, in the DARR of WMT17 and WMT18."""
MIN_ROWS = 3
"""Distinct rows that a correlation needs: two always lie on a line."""
_RATING_ROUNDING = 1e-9
"""Decimal ratings are inexact in binary: 70.1 - 45.1 is slightly below 25."""
_ACCURACY_ROUNDING = 1e-12
"""Accuracies up to this apart count as equal."""
TIE = 1e-5
"""Scores up to this apart are a tie for ``accuracy``: a score may move this far under an equal signature."""
MAX_PAIRS = 2**26
"""Pairs of segments to compare at once: 3 GB."""


_PAIR_FORMULAS: dict[Statistic, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    "darr": lambda c, d, m, *_: (c - d - m, c + d + m),
    "tau_10": lambda c, d, m, *_: (c - d - m, c + d + m),
    "tau_13": lambda c, d, *_: (c - d, c + d),
    "tau_14": lambda c, d, m, *_: (c - d, c + d + m),
    "tau_eq": lambda c, d, m, h, both: (c + both - d - m - h, c + d + m + h + both),
    "accuracy": lambda c, d, m, *_: (c + m / 2, c + d + m),
}
"""Numerator and denominator from the counts of pairs that are concordant, discordant, tied by the metric, tied by
humans (h), and tied by both. The variants of Kendall's tau are WMT's of 2010, 2013 and 2014, and the one by Deutsch,
Foster and Freitag (2023), who list them all. ``darr`` is 2010's over pairs with distant ratings (Bojar et al. 2017;
Ma et al. 2018). ``accuracy`` counts a tie of the metric as half a pair."""
PAIRWISE = frozenset({*_PAIR_FORMULAS, "acc_eq", "pdp", "spa"})
"""Statistics of pairs, which need the item of every segment."""
PERMUTATIONS, PERMUTATION_SEED = 1000, 4
"""Permutations of the soft pairwise accuracy and their seed, as in the metrics shared task."""


class CorrelationEstimate(NamedTuple):
    """The statistic of one metric's scores.

    Attributes:
        value: The statistic.
        n: Number of segments.
        units: Number of rows or items that a resample draws.
        resampled: Maps weights, shape (units, B), to the statistic of every resample, shape (B,), NaN if undefined.
        epsilon: For ``acc_eq``, the largest difference of two scores that counts as a tie.
        pairs: For ``acc_eq``, every pair's summand of the value and its first row; shape (P,) each.
    """

    value: float
    n: int
    units: int
    resampled: Callable[[np.ndarray], np.ndarray]
    epsilon: float | None = None
    pairs: tuple[np.ndarray, np.ndarray] = (np.zeros(0), np.zeros(0, dtype=np.intp))


Items = Sequence[str] | np.ndarray
Estimator = Callable[[np.ndarray], CorrelationEstimate]
"""Maps scores, shape (N,), to their statistic; raises InputError, with only the reason, if it is undefined."""


def _correlate_rows(statistic: Statistic, x: np.ndarray, y: np.ndarray) -> float:
    """Compute Pearson's r, Spearman's rho or Kendall's tau-b; raise InputError if it is undefined."""
    if len(x) < MIN_ROWS:
        raise InputError(f"expected at least {MIN_ROWS} values, found {len(x)}")
    for side, values in (("scores", x), ("ratings", y)):
        if np.ptp(values) == 0:
            raise InputError(f"the {side} are constant ({values[0]:g})")
    if statistic != "pearson":
        from scipy import stats  # takes half a second, and comparing systems does not need it

        if statistic == "kendall":  # "asymptotic" concerns the unused p-value, which may take longer than tau
            return float(stats.kendalltau(x, y, method="asymptotic").statistic)
        x, y = stats.rankdata(x), stats.rankdata(y)
    return float(np.clip(_direction(x) @ _direction(y), -1, 1))


def _direction(values: np.ndarray) -> np.ndarray:
    """Return differences from the mean, scaled to norm 1; scaled twice, so tiny squares do not vanish."""
    centered = values - values.mean()
    centered /= np.abs(centered).max()
    return np.asarray(centered / np.linalg.norm(centered))


def _resample_pearson(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute Pearson's r of every resample; O(NB)."""
    rows = weights.sum(axis=0)
    dx, dy = (values[:, None] - values @ weights / rows for values in (x, y))  # (N, B)
    xx, yy, xy = (np.einsum("nb,nb,nb->b", weights, a, b) for a, b in ((dx, dx), (dy, dy), (dx, dy)))
    constant = [(_count_values(values, weights)[1].max(axis=0) == rows) for values in (x, y)]
    return _divide(xy, np.sqrt(xx * yy), constant[0] | constant[1])


def _resample_spearman(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute Spearman's rho of every resample, with ranks per resample; O(NB)."""
    ranks, norms = [], []
    for values in (x, y):
        code, counts = _count_values(values, weights)
        upto = np.cumsum(counts, axis=0)
        # Twice the difference of a value's mean rank from the mean of all ranks.
        deviations = 2 * upto - counts - upto[-1]  # (values, B)
        ranks.append(deviations[code])
        norms.append((counts * deviations * deviations).sum(axis=0).astype(np.float64))
    products = (weights * ranks[0] * ranks[1]).sum(axis=0)
    return _divide(products, np.sqrt(norms[0] * norms[1]), (norms[0] == 0) | (norms[1] == 0))


def _resample_kendall(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute Kendall's tau-b of every resample; O(NB log N)."""
    rows = weights.sum(axis=0)
    (code_x, counts_x), (code_y, counts_y) = (_count_values(values, weights) for values in (x, y))
    untied_x, untied_y = ((rows * rows - (counts * counts).sum(axis=0)) // 2 for counts in (counts_x, counts_y))
    norms = np.sqrt(untied_x.astype(np.float64) * untied_y)
    return _divide(_concordant_minus_discordant(code_x, code_y, weights), norms, norms == 0)


def _concordant_minus_discordant(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return concordant minus discordant pairs of rows, by the highest bit in which their y differ.

    x and y are ranks from 0. Among rows that share all higher bits, let s = 1 if the bit is set and -1 otherwise. A
    pair with x_i < x_j adds ``w_i w_j (s_j - s_i) / 2``: 1 if concordant, -1 if discordant, 0 if the bits are equal.
    """
    balance = np.zeros(weights.shape[1], dtype=np.int64)
    for bit in range(int(y.max()).bit_length()):
        order = np.lexsort((x, y >> (bit + 1)))
        block, value, sign = y[order] >> (bit + 1), x[order], 2 * (y[order] >> bit & 1) - 1
        runs = np.flatnonzero(np.r_[True, (np.diff(block) != 0) | (np.diff(value) != 0)])  # rows with the same x
        drawn = np.add.reduceat(weights[order], runs, axis=0)  # (runs, B)
        signed = np.add.reduceat(weights[order] * sign[:, None], runs, axis=0)
        first_run = np.searchsorted(block[runs], block[runs])
        drawn_before, signed_before = (
            (before := np.cumsum(values, axis=0) - values) - before[first_run] for values in (drawn, signed)
        )
        balance += (drawn_before * signed - signed_before * drawn).sum(axis=0) // 2
    return balance


def _count_values(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's value as a rank from 0, shape (N,), and how often each value was drawn, shape (values, B)."""
    _, code = np.unique(values, return_inverse=True)
    order = np.argsort(code, kind="stable")
    first = np.flatnonzero(np.diff(code[order], prepend=-1))
    return code, np.add.reduceat(weights[order], first, axis=0)


def _divide(numerator: np.ndarray, denominator: np.ndarray, undefined: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(undefined, np.nan, np.clip(numerator / denominator, -1, 1))


_RESAMPLED = {"pearson": _resample_pearson, "spearman": _resample_spearman, "kendall": _resample_kendall}


def _make_correlation(statistic: Statistic, ratings: np.ndarray) -> Estimator:
    def estimate(scores: np.ndarray) -> CorrelationEstimate:
        def resampled(weights: np.ndarray) -> np.ndarray:
            enough = (weights > 0).sum(axis=0) >= MIN_ROWS
            return np.where(enough, _RESAMPLED[statistic](scores, ratings, weights), np.nan)

        value = _correlate_rows(statistic, scores, ratings)
        return CorrelationEstimate(value, len(scores), len(scores), resampled)

    return estimate


class ItemPairs(NamedTuple):
    """Pairs of rows of one item; arrays of shape (P,)."""

    first: np.ndarray
    second: np.ndarray
    item: np.ndarray  # The item's number among items with pairs


def pair_rows(items: Items) -> ItemPairs:
    """Return all pairs of rows that belong to one item.

    >>> first, second, _ = pair_rows(["a", "b", "a", "c", "a"])
    >>> first.tolist(), second.tolist()
    ([0, 0, 2], [2, 4, 4])
    """
    _, code = np.unique(np.asarray(items), return_inverse=True)
    order = np.argsort(code, kind="stable")
    runs = [run for run in np.split(order, np.flatnonzero(np.diff(code[order])) + 1) if len(run) > 1]
    count = sum(len(run) * (len(run) - 1) // 2 for run in runs)
    if count > MAX_PAIRS:
        hint = "compare the segments of one item or system"
        raise InputError(f"{count:,} pairs of segments exceed the limit of {MAX_PAIRS:,}: {hint}.")
    pairs = [np.stack([run[side] for side in np.triu_indices(len(run), 1)]) for run in runs]
    first, second = np.concatenate([np.zeros((2, 0), dtype=np.intp), *pairs], axis=1)
    return ItemPairs(first, second, np.repeat(np.arange(len(runs)), [pair.shape[1] for pair in pairs]))


def _ratio_of_sums(sums: np.ndarray, formula: Callable[..., Any], segments: int) -> CorrelationEstimate:
    """Estimate a ratio. A formula maps sums per item, shape (K, U), to its numerator and denominator."""

    def resampled(weights: np.ndarray) -> np.ndarray:
        numerator, denominator = formula(*(term @ weights for term in sums))
        return _divide(numerator, denominator, denominator == 0)

    units = sums.shape[1]
    value = float(resampled(np.ones((units, 1), int))[0]) if units else math.nan
    return CorrelationEstimate(value, segments, units, resampled)


def _make_pair_statistic(statistic: Statistic, ratings: np.ndarray, items: Items, threshold: float) -> Estimator:
    """Make a statistic that counts pairs of segments within items, by `_PAIR_FORMULAS`."""
    first, second, item = pair_rows(items)
    human = ratings[first] - ratings[second]
    units = int(item.max(initial=-1)) + 1
    if statistic == "darr":
        apart = (human != 0) & (np.abs(human) >= threshold - _RATING_ROUNDING)
        first, second, item, human = (array[apart] for array in (first, second, item, human))

    def estimate(scores: np.ndarray) -> CorrelationEstimate:
        metric = scores[first] - scores[second]
        if statistic == "accuracy":
            metric = np.where(np.abs(metric) <= TIE, 0.0, metric)
        tied, alike = metric == 0, np.sign(metric) == np.sign(human)
        outcome = np.where(human == 0, np.where(tied, 4, 3), np.where(tied, 2, np.where(alike, 0, 1)))
        counts = np.bincount(5 * item + outcome, minlength=5 * units).reshape(units, 5).T  # (outcomes, items)
        result = _ratio_of_sums(counts, _PAIR_FORMULAS[statistic], len(np.unique([first, second])))
        if math.isnan(result.value):
            if human.any():
                raise InputError("within items, no two segments with different ratings have different scores")
            apart = f" by at least the threshold of {threshold:g} points" * (statistic == "darr")
            raise InputError(f"within items, no two ratings differ{apart}")
        return result

    return estimate


def _make_acc_eq(ratings: np.ndarray, items: Items) -> Estimator:
    """Make the pairwise accuracy with tie calibration (Deutsch, Foster and Freitag 2023); O(P log P), O(P) a resample.

    An item's accuracy is the share of its pairs that metric and humans order the same way or both tie. Scores up to
    epsilon apart are tied. Epsilon >= 0 maximises the mean over items; among several, the smallest is used.
    """
    first, second, item = pair_rows(items)
    human = ratings[first] - ratings[second]
    sizes = np.bincount(item)

    def estimate(scores: np.ndarray) -> CorrelationEstimate:
        if not len(item):
            raise InputError("no two segments belong to one item")
        metric = scores[first] - scores[second]
        alike = (metric != 0) & (np.sign(metric) == np.sign(human))
        shares = np.bincount(item, weights=alike) / sizes  # with epsilon 0
        order = np.argsort(np.abs(metric), kind="stable")
        differences = np.abs(metric)[order]
        change = ((human == 0)[order].astype(np.float64) - alike[order]) / sizes[item[order]]  # if the pair is tied
        last_of_equal = np.flatnonzero(np.r_[np.diff(differences) != 0, True]) + 1
        ends = np.unique(np.r_[np.searchsorted(differences, 0.0, side="right"), last_of_equal])  # (candidates,)

        def calibrate(weights: np.ndarray) -> tuple[float, float]:
            tied = np.r_[0.0, np.cumsum(change * weights[item[order]])][ends]
            accuracy = (shares @ weights + tied) / weights.sum()  # (candidates,)
            best = int(np.argmax(accuracy >= accuracy.max() - _ACCURACY_ROUNDING))
            return float(accuracy[best]), float(np.r_[0.0, differences][ends[best]])

        def resampled(weights: np.ndarray) -> np.ndarray:
            return np.array([calibrate(drawn)[0] for drawn in weights.T])

        value, epsilon = calibrate(np.ones(len(sizes)))
        segments = len(np.unique([first, second]))
        correct = np.where(np.abs(metric) <= epsilon, human == 0, alike)
        pairs = correct / sizes[item] / len(sizes), first
        return CorrelationEstimate(value, segments, len(sizes), resampled, epsilon, pairs)

    return estimate


def _make_pdp(ratings: np.ndarray, items: Items) -> Estimator:
    """Make the pairwise difference Pearson (DiIanni and Deutsch 2025).

    It is Pearson's r of ``x_i - x_j`` and ``y_i - y_j`` over pairs within items, in both orders, so the means are 0.
    """
    first, second, item = pair_rows(items)
    human = ratings[first] - ratings[second]

    def estimate(scores: np.ndarray) -> CorrelationEstimate:
        metric = scores[first] - scores[second]
        for side, differences in (("scores", metric), ("ratings", human)):
            if not differences.any():
                raise InputError(f"within items, no two {side} differ")
        x, y = (differences / np.abs(differences).max() for differences in (metric, human))
        sums = np.stack([np.bincount(item, weights=products) for products in (x * y, x * x, y * y)])
        return _ratio_of_sums(sums, lambda p, xx, yy: (p, np.sqrt(xx * yy)), len(np.unique([first, second])))

    return estimate


@functools.lru_cache(maxsize=1)
def _draw_signs(segments: int) -> np.ndarray:
    """Return 1 or -1 for every permutation and segment, drawn as in the shared task's program."""
    rng = np.random.default_rng(PERMUTATION_SEED)
    return np.where(rng.random(size=(PERMUTATIONS, segments), dtype=np.float32) > 0.5, np.float32(1), np.float32(-1))


def order_p_values(scores: np.ndarray) -> np.ndarray:
    """Compute the p of each system being better than another (Thompson, Mathur, Deutsch and Khayrallah 2024).

    A permutation swaps two systems' scores of every segment with probability 1/2. p_ij is the share of permutations,
    the same for all pairs, with a difference of sums at least as high as observed.

    Signs and sums follow mt-metrics-eval, in float32, where rounding decides whether a permutation that ties with the
    data counts. mt-metrics-eval takes systems in the order of a Python set, which changes between runs. Here they are
    sorted by name. The order matters if scores tie exactly, as integers do.

    Args:
        scores: Shape (systems, segments).

    Returns:
        p-values, shape (systems, systems); 0 on and below the diagonal.
    """
    exponent = int(np.frexp(np.abs(scores).max(initial=0.0))[1])  # a power of two changes no rounding
    # Below 1, so no sum overflows. C order, because memory layout changes the order of a sum.
    single = np.ldexp(scores, -exponent).astype(np.float32, order="C")  # (systems, segments)
    # One product per system: within a single matrix product, equal systems may get sums that differ by rounding.
    permuted = np.stack([_draw_signs(scores.shape[1]) @ row for row in single], axis=1)  # (permutations, systems)
    observed = single.sum(axis=1)
    p = np.zeros((len(scores), len(scores)))
    for i in range(len(scores) - 1):
        differences = permuted[:, i, None] - permuted[:, i + 1 :]
        p[i, i + 1 :] = (differences >= observed[i] - observed[i + 1 :]).mean(axis=0)
    return p


def place_systems(items: Items, systems: Items) -> tuple[np.ndarray, np.ndarray]:
    """Return the systems, ascending, and the rows of the items that all of them have; shape (systems, items).

    Items keep the order of the data, in which the shared task draws signs.
    """
    names, row = np.unique(np.asarray(systems), return_inverse=True)
    _, first, column = np.unique(np.asarray(items), return_index=True, return_inverse=True)
    place = np.full((len(names), len(first)), -1)
    place[row, column] = np.arange(len(row))
    place = place[:, np.argsort(first)]
    return names, place[:, (place >= 0).all(axis=0)]


def _make_spa(ratings: np.ndarray, items: Items, systems: Items) -> Estimator:
    """Make the soft pairwise accuracy, ``mean_ij 1 - |p_ij(ratings) - p_ij(scores)|`` (Thompson et al. 2024).

    It uses the items that every system has. Resamples draw systems. A system and its own copy make no pair.
    """
    names, place = place_systems(items, systems)
    human = order_p_values(ratings[place])

    def estimate(scores: np.ndarray) -> CorrelationEstimate:
        if len(names) < 2 or not place.size:
            raise InputError("no two systems share an item")
        alike = np.triu(1 - np.abs(human - order_p_values(scores[place])), 1)
        pairs = np.triu(np.ones_like(alike), 1)

        def resampled(weights: np.ndarray) -> np.ndarray:
            counted, agreeing = ((weights * (matrix @ weights)).sum(axis=0) for matrix in (pairs, alike))
            return _divide(agreeing, counted, counted == 0)

        value = float(alike.sum() / pairs.sum())
        return CorrelationEstimate(value, place.size, len(names), resampled)

    return estimate


def make_estimator(
    statistic: Statistic,
    ratings: np.ndarray,
    items: Items | None = None,
    threshold: float = THRESHOLD,
    systems: Items | None = None,
) -> Estimator:
    """Prepare ratings for a statistic of many metrics' scores.

    Args:
        statistic: The statistic. Values are from -1 to 1; for ``accuracy``, ``acc_eq`` and ``spa`` from 0.
        ratings: Shape (N,).
        items: Every segment's item, for `PAIRWISE`.
        threshold: Minimum difference of two ratings that ``darr`` counts.
        systems: Every segment's system, for ``spa``.

    Returns:
        The estimator of the statistic.
    """
    if statistic in _RESAMPLED:
        return _make_correlation(statistic, ratings)
    if items is None or (statistic == "spa" and systems is None):
        raise InputError("the data do not name the item of every segment, or its system")
    if statistic == "spa":
        return _make_spa(ratings, items, np.asarray(systems))
    if statistic in _PAIR_FORMULAS:
        return _make_pair_statistic(statistic, ratings, items, threshold)
    return (_make_acc_eq if statistic == "acc_eq" else _make_pdp)(ratings, items)


def statistic_named(name: str) -> Statistic:
    """Return the statistic; raise SpecError, with the choices, for an unknown name."""
    if name not in STATISTICS:
        raise SpecError(f"unknown statistic {name!r}; {menu(str(name), STATISTICS)}.")
    return STATISTICS[STATISTICS.index(name)]


def check_numbers(name: str, values: Sequence[float] | np.ndarray, rows: int) -> np.ndarray:
    """Return finite scores or ratings as float64, shape (rows,); errors call them `name`."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape != (rows,):
        raise InputError(f"expected {name} of shape ({rows},), one per rated segment, not {numbers.shape}.")
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        advice = "leave out the segment, or find out why it has none"
        raise InputError(f"{name}[{row}] is {numbers[row]}; expected a finite number: {advice}.")
    return numbers


def correlate(statistic: str, scores: Sequence[float] | np.ndarray, ratings: np.ndarray) -> float:
    """Return the correlation of scores with ratings, shape (N,) each, from -1 to 1; raise InputError if undefined.

    For `PAIRWISE` statistics use `make_estimator`, which takes the item of every segment.
    """
    chosen, human = statistic_named(statistic), check_numbers("ratings", ratings, len(ratings))
    checked = check_numbers("scores", scores, len(human))
    try:
        return make_estimator(chosen, human)(checked).value
    except InputError as error:
        raise InputError(f"{chosen} is undefined: {error}.") from error
