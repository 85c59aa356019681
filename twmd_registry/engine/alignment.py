"""`Alignment`: how the score of two texts arises, and its heat maps as HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from rich.cells import cell_len, set_cell_size

from twmd_registry.messages import visible
from twmd_registry.registry.signature import Signature
from twmd_registry.template import render

LONGEST_LABEL = 24
"""Maximum width of a label in terminal columns; a wide character takes two."""
JOINERS = "\u200c\u200d"
"""Not printable by themselves, but part of Persian words and many emoji."""
HEADINGS = {
    "precision": "precision: each hypothesis token's share, given to the {against}",
    "recall": "recall: each {against} token's share, given to the hypothesis",
    "score": "one plan for both texts",
}
MAX_NOTEBOOK_TOKENS = 60
"""Maximum tokens per side of a heat map in a notebook."""


class Link(NamedTuple):
    """One cell of a plan: a hypothesis token and a reference token.

    Attributes:
        hypothesis: Number of the hypothesis token (or n-gram), from 0.
        reference: Number of the reference token.
        amount: The mass that the plan moves between them.
        similarity: Their cosine (their inner product, with raw vectors).
    """

    hypothesis: int
    reference: int
    amount: float
    similarity: float


@dataclass(frozen=True, eq=False)
class Alignment:
    """The alignment of one hypothesis with one reference: N hypothesis tokens (or n-grams), M reference tokens.

    Attributes:
        signature: The applied specification.
        score: *The* score of the pair.
        hypothesis: The hypothesis's tokens as text.
        reference: The reference's tokens.
        hypothesis_shares: Mass of each token; shape (N,), sum 1; zeros if the text has nothing to compare.
        reference_shares: Mass of each token; shape (M,), sum 1 or zeros.
        similarities: S, cosines (inner products, with ``vectors=raw``); shape (N, M).
        plans: By side (``precision`` and ``recall`` for a two-sided metric, else ``score``), the mass between any two
            tokens; each of shape (N, M). The sum of plan times S is the side's C before Eq. 1 and any baseline (for
            moverscore, of plan times cost the EMD; ``objective=entropic`` adds T times the mean entropy of the rows).
            Transport plans have the shares as row sums (precision) or column sums (recall), exact transport as both; a
            greedy token gives its whole share to one partner; sbert spreads shares evenly; wordset_cka weights each
            similarity by itself.
    """

    signature: Signature
    score: float
    hypothesis: tuple[str, ...]
    reference: tuple[str, ...]
    hypothesis_shares: np.ndarray
    reference_shares: np.ndarray
    similarities: np.ndarray
    plans: dict[str, np.ndarray]

    def __repr__(self) -> str:
        """Return two lines: the score with the token counts, and the signature."""
        tokens = f"{len(self.hypothesis)} x {len(self.reference)} tokens"
        return f"{type(self).__name__}({self.signature.spec.metric} {self.score:.4f}, {tokens})\n  {self.signature}"

    def _repr_html_(self) -> str:
        """Return the heat maps that a notebook shows."""
        tokens = max(len(self.hypothesis), len(self.reference))
        drawn = heat_maps(self, level=4) if 0 < tokens <= MAX_NOTEBOOK_TOKENS else ""
        return render("alignment.html", "engine", alignment=self, heat_maps=drawn, most=MAX_NOTEBOOK_TOKENS)

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides that determine *the* score: both for F1."""
        output = str(self.signature.spec.output)
        return (output,) if output in self.plans else tuple(self.plans)

    def links(self, side: str | None = None, limit: int | None = None) -> list[Link]:
        """Return up to `limit` cells with mass of a side's plan (by default the first of `sides`), the largest first;
        all for None.
        """
        plan = self.plans[side or self.sides[0]]
        cells = np.flatnonzero(plan)
        amounts = plan.ravel()[cells]
        if limit is not None and limit < len(cells):  # millions of cells, for two long texts
            large = amounts >= np.partition(amounts, -limit)[-limit]
            cells, amounts = cells[large], amounts[large]
        order = np.argsort(-amounts, kind="stable")[:limit]
        rows, columns = np.unravel_index(cells[order], plan.shape)
        facts = rows, columns, amounts[order], self.similarities[rows, columns]
        return [Link(*link) for link in zip(*(values.tolist() for values in facts), strict=True)]

    def as_dict(self, limit: int | None = None) -> dict[str, Any]:
        """Return the signature, the score, and per side the `limit` largest links (all for None) with their tokens."""
        sides = {
            side: [
                {
                    "hypothesis": self.hypothesis[link.hypothesis],
                    "reference": self.reference[link.reference],
                    "carries": link.amount,
                    "similarity": link.similarity,
                }
                for link in self.links(side, limit)
            ]
            for side in self.sides
        }
        return {"signature": str(self.signature), "score": self.score, "sides": sides}


def heat_maps(alignment: Alignment, *, level: int = 2, min_share: float = 0.0) -> str:
    """Write one heat map per side as HTML, below a heading of the given `level`.

    Cells below the share `min_share` of the greatest amount stay empty, which makes a page much smaller.
    """
    return render(
        "heat_maps.html", "engine", **heat_map_variables(alignment) | {"level": level, "min_share": min_share}
    )


def heat_map_variables(alignment: Alignment) -> dict[str, Any]:
    """Return the template's variables."""
    sides, against = [], against_of(alignment)
    rows, columns = ([(_visible_token(t), label(t)) for t in ts] for ts in (alignment.hypothesis, alignment.reference))
    for side in alignment.sides:
        plan, cells = alignment.plans[side], zip(alignment.plans[side], alignment.similarities, strict=True)
        values: dict[str, Any] = {"heading": HEADINGS[side].format(against=against), "columns": columns}
        values["rows"] = [(*token, *map(np.ndarray.tolist, arrays)) for token, arrays in zip(rows, cells, strict=True)]
        for name, sums in (("row", plan.sum(1)), ("column", plan.sum(0))):
            values |= {f"{name}_sums": sums.tolist(), f"{name}_most": float(np.abs(sums).max()) or 1.0}
        sides.append(values | {"most": float(np.abs(plan).max()) or 1.0, "negative": bool((plan < 0).any())})
    return {"sides": sides, "against": against, "level": 2, "min_share": 0.0}


def against_of(alignment: Alignment) -> str:
    """Return what the hypothesis is compared with: ``reference`` or ``source``."""
    return alignment.signature.spec.against or "reference"


def label(token: str) -> str:
    """Shorten a token to `LONGEST_LABEL` columns and escape its control characters."""
    text = _visible_token(token)
    if cell_len(text) <= LONGEST_LABEL:
        return text
    return set_cell_size(text, LONGEST_LABEL - 1).rstrip(f" {JOINERS}") + "…"


def _visible_token(token: str) -> str:
    if not token.strip(" "):
        return "␣" * len(token) or "∅"
    return "".join(c if c in JOINERS else visible(c) for c in token)
