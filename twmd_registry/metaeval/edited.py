"""Rated translations chosen to be edited, and what edits make of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twmd_registry.errors import InputError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.edits import Edit, apply_edit, collect_names, rules_with

UPPER = 0.75
"""Quantile of its group's ratings that a text must reach to be edited: people found it among the better quarter."""


class EditCandidates(NamedTuple):
    """Texts to edit, one per reference.

    Attributes:
        texts: Of every reference the text with the best rating.
        references: Of every text its references.
        low: References whose best text is rated too low.
        same: References whose best text is one of them.
    """

    texts: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    low: int
    same: int


class EditedTexts(NamedTuple):
    """What an edit made of the chosen texts.

    Attributes:
        edit: What was done.
        rows: Numbers of the texts that it applies to.
        texts: These texts, edited.
        left_out: Texts that it does not apply to, or makes one of their references of.
    """

    edit: Edit
    rows: tuple[int, ...]
    texts: tuple[str, ...]
    left_out: int


def choose_texts(data: Sequence[RatedSegments]) -> EditCandidates:
    """Choose of every reference the text that people rated best (the first of several), if its rating reaches the quantile `UPPER` of its group.

    Args:
        data: Rated data sets; groups of different sets are different groups.

    Raises:
        InputError: No text is left.
    """
    texts: list[str] = []
    references: list[tuple[str, ...]] = []
    low = same = 0
    for rated in data:
        group = np.asarray(rated.group)
        least = {name: np.quantile(rated.ratings[group == name], UPPER) for name in dict.fromkeys(rated.group)}
        best: dict[tuple[str, tuple[str, ...]], int] = {}
        for row, own in enumerate(rated.references):
            key = (rated.group[row], (own,) if isinstance(own, str) else tuple(own))
            if key not in best or rated.ratings[row] > rated.ratings[best[key]]:
                best[key] = row
        for (name, own), row in best.items():
            if rated.ratings[row] < least[name]:
                low += 1
            elif rated.predictions[row] in own:
                same += 1
            else:
                texts.append(rated.predictions[row])
                references.append(own)
    if not texts:
        raise InputError(f"there is no text to edit: {low} best texts are rated too low, {same} are their own reference.")
    return EditCandidates(tuple(texts), tuple(references), low, same)


def edit_texts(chosen: EditCandidates, seed: int) -> tuple[EditedTexts, ...]:
    """Make every edit in every text that it applies to; names are exchanged for others of the references.

    Args:
        chosen: The texts.
        seed: Of the draws.
    """
    rules = rules_with(collect_names(text for own in chosen.references for text in own))
    found = []
    for edit in Edit:
        made = [apply_edit(text, edit, rules, seed) for text in chosen.texts]
        rows = [row for row, text in enumerate(made) if text is not None and text not in chosen.references[row]]
        found.append(EditedTexts(edit, tuple(rows), tuple(str(made[row]) for row in rows), len(made) - len(rows)))
    return tuple(found)


def lay_out(chosen: EditCandidates, edited: Sequence[EditedTexts]) -> RatedSegments:
    """Put every text beside its edited form, edit after edit.

    A text and its edited form are neighbours, with one reference: where scores depend on a batch or the corpus, both are centered alike.

    Returns:
        Texts at even rows, edited ones at odd rows; the ratings are NaN, for nobody rated these.
    """
    pairs = [(own.edit, row, text) for own in edited for row, text in zip(own.rows, own.texts, strict=True)]
    group = [str(edit) for edit, _, _ in pairs for _ in range(2)]
    texts = [text for _, row, after in pairs for text in (chosen.texts[row], after)]
    references = [list(chosen.references[row]) for _, row, _ in pairs for _ in range(2)]
    return RatedSegments(group, texts, references, np.full(len(texts), np.nan), 0)
