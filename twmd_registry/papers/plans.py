"""How far Sinkhorn sweeps are from a transport plan: Figure 4 of the TWMD paper, right."""

from __future__ import annotations

import numpy as np
import torch

from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.align.sinkhorn import sinkhorn_plan
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import InputError
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.papers.reproduction import Reproduction, line_name
from twmd_registry.registry.options import RunOptions
from twmd_registry.tensors import PaddedTokens


def first_pairs(found: Reproduction) -> tuple[str, RatedSegments]:
    """Return the name of the first group, and its first pairs, as many as asked for: they keep their batches."""
    group, segments = next(iter(next(iter(found.rated.values())).items()))
    return group, select(segments, np.arange(min(found.experiment.plans, len(segments.ratings))))


def marginal_errors(found: Reproduction, options: RunOptions) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Measure the marginal error of plans after every number of sweeps.

    After the last sweep the rows of pi are exact. The error is ``sum_j |sum_i pi_ij - 1/n|``, the columns' distance
    from their marginal in total, averaged over pairs of texts.

    Args:
        found: An experiment with ``plans`` whose settings vary temperature and iterations.
        options: Where and how fast.

    Returns:
        By temperature, as a line's name: numbers of sweeps, and the errors, from 0 to 2.

    Raises:
        InputError: The texts leave nothing to align.
    """
    _, rated = first_pairs(found)
    first = found.settings[0].metric
    if isinstance(first, str):
        raise InputError(f"{first} has no transport plan.")
    with Scorer(first, options) as scorer:
        scores = scorer.score(rated.predictions, rated.references)
        similarities = [scores.explain(i).similarities for i in range(len(rated.ratings))]
    aligned = [one for one in similarities if one.size]
    if not aligned:
        raise InputError("none of the pairs has tokens on both sides: there is no plan to measure.")
    temperatures, sweeps = (found.experiment.vary[key] for key in ("temperature", "iterations"))
    lines = {}
    for temperature in temperatures:
        how = [AlignmentSettings(temperature, number) for number in sweeps]
        errors = [np.mean([_marginal_error(one, settings) for one in aligned]) for settings in how]
        lines[line_name(first, temperature)] = np.array(sweeps, dtype=np.float64), np.array(errors)
    return lines


def _marginal_error(similarities: np.ndarray, how: AlignmentSettings) -> float:
    """Return the distance of the plan's column sums from the marginal, in float64."""
    s = torch.from_numpy(similarities).to(torch.float64)[None]  # (1, N, M)
    # Weights of one change nothing, but keep the shares in float64.
    x, y = (
        PaddedTokens(torch.ones(1, number, dtype=torch.bool), torch.ones(1, number).double()) for number in s.shape[1:]
    )
    columns = sinkhorn_plan(s, x, y, how).sum(1)  # (1, M)
    return float((columns - 1 / s.shape[2]).abs().sum())
