"""What the TWMD paper's names of tables and rows mean here.

The paper calls the hypothesis side "recall" and the reference side "precision"; everywhere else, and here, it is the other way round
(README). So its Tables 2, 3 and 5 are our precision, its Tables 6 and 7 our recall, its Tables 8 and 9 F1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from twmd_registry.errors import SpecError, menu
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.names import Centering, MetricName, Output, Special, Vectors
from twmd_registry.registry.spec import MetricSpec, make_spec

METRICS: dict[str, MetricName] = {
    "SBERT": MetricName.SBERT,
    "CKA": MetricName.WORDSET_CKA,
    "MoverScore": MetricName.MOVERSCORE,
    "BERTscore": MetricName.BERTSCORE_CENTERED,
    "TWMD": MetricName.TWMD,
    "TRWMD": MetricName.TRWMD,
}
"""The paper's metrics. Its MoverScore is the exact transport of single tokens by cosine (Eq. 2), not Zhao et al.'s program."""

CENTERINGS: dict[str, Centering] = {
    "": Centering.NONE,
    "b": Centering.BATCH,
    "batch": Centering.BATCH,
    "sent": Centering.SENTENCE,
    "dim": Centering.DIMENSION,
}
"""What stands after the hyphen of a row's name; ``-batch``, ``-sent`` and ``-dim`` in Table 1, ``-b`` in the others."""

ONE_SIDE = {"TWMD": 0.02, "TRWMD": 0.02, "TWMD-b": 0.10, "TRWMD-b": 0.15}
"""The paper's temperatures for either side (section 6.2; Appendix C takes them over)."""
BOTH_SIDES = {"TWMD": 0.01, "TRWMD": 0.01, "TWMD-b": 0.08, "TRWMD-b": 0.06}
"""Its temperatures for F1 (Appendix C)."""

LANGUAGE_PAIRS = {
    17: ("cs-en", "de-en", "fi-en", "lv-en", "ru-en", "tr-en", "zh-en"),
    18: ("cs-en", "zh-en", "ru-en", "fi-en", "tr-en", "et-en", "de-en"),
}
"""By year of WMT, in the order of the paper's columns; the average of Table 5, which has no such columns, is over them too."""

WMT_STATISTICS, STS_STATISTICS = ("kendall", "pearson"), ("pearson", "spearman")
"""What the two numbers of a cell are."""


class PaperTable(NamedTuple):
    """What one of the paper's tables is made of.

    Attributes:
        year: Of WMT; None for STS12-16.
        output: The side, in our words.
        special: The special tokens that take part; the authors' programs for WMT and for STS differ.
        temperatures: By row.
        offsets: The layers that are read, relative to a model's own best.
    """

    year: int | None
    output: Output
    special: Special
    temperatures: dict[str, float]
    offsets: tuple[int, ...] = (0,)

    @property
    def statistics(self) -> tuple[str, str]:
        """The two numbers of a cell."""
        return WMT_STATISTICS if self.year else STS_STATISTICS


TABLES: dict[str, PaperTable] = {
    "twmd-table1": PaperTable(None, Output.PRECISION, Special.NONE, ONE_SIDE),
    "twmd-table2": PaperTable(17, Output.PRECISION, Special.CLS, ONE_SIDE),
    "twmd-table3": PaperTable(18, Output.PRECISION, Special.CLS, ONE_SIDE),
    "twmd-table5": PaperTable(18, Output.PRECISION, Special.CLS, ONE_SIDE, offsets=(-1, 1)),
    "twmd-table6": PaperTable(17, Output.RECALL, Special.CLS, ONE_SIDE),
    "twmd-table7": PaperTable(18, Output.RECALL, Special.CLS, ONE_SIDE),
    "twmd-table8": PaperTable(17, Output.F1, Special.CLS, BOTH_SIDES),
    "twmd-table9": PaperTable(18, Output.F1, Special.CLS, BOTH_SIDES),
}
"""The tables that can be computed again. Table 4 needs fine-tuned models. No row of Table 1 has a temperature, but lines of Figure 5 do."""


def paper_table(name: str) -> PaperTable:
    """Look a table up.

    Raises:
        SpecError: There is no such table; the message lists those there are.
    """
    if name not in TABLES:
        raise SpecError(f"no table {name!r} to compute again; {menu(name, TABLES)}.")
    return TABLES[name]


def spec_of_row(row: str, table: PaperTable, model: str, layer: int, **varied: Any) -> MetricSpec:
    """The specification of a row.

    Batches of 32 with a mean of each side, one Sinkhorn sweep, no entropy term and Eq. 1's normalisation come from the preset ``paper``.
    SBERT averages vectors of length one, as the authors' program does (tests/engine/test_golden.py holds it to that program's scores).

    Args:
        row: A row's name in the paper, such as ``TWMD-b``.
        table: The table it is in.
        model: The encoder.
        layer: Its hidden state.
        varied: Keys that a figure varies along an axis, such as ``iterations``, and their values.

    Raises:
        SpecError: Not a row of the paper.
    """
    name, _, centering = row.partition("-")
    if name not in METRICS or centering not in CENTERINGS:
        raise SpecError(
            f"no row {row!r} in the paper: expected {', '.join(METRICS)}, with one of -{', -'.join(filter(None, CENTERINGS))} or without."
        )
    keys = {"output": table.output, "temperature": table.temperatures.get(row), "vectors": Vectors.UNIT}
    used = {key: value for key, value in keys.items() if key in entry(METRICS[name]).keys} | varied
    return make_spec(METRICS[name], "paper", model=model, layer=layer, special=table.special, centering=CENTERINGS[centering], **used)
