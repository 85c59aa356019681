"""What the MoverScore paper's names of rows mean here.

Its x is the system's text (Figure 1), and its precision averages over x: HMD-PREC is our precision, HMD-RECALL our recall.
Word movers are the authors' first release (preset ``moverscore-v1``): squared Euclidean distance, idf of the very texts, without
continuing pieces and ASCII's punctuation. Sentence movers are read as in the authors' web service (preset ``moverscore-smd``): the
distance itself, no idf, all tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from twmd_registry.errors import SpecError
from twmd_registry.metaeval.published import NO_MODEL
from twmd_registry.registry.keys import layers_text
from twmd_registry.registry.names import SENTENCE, Aggregation, Centering, Idf, MetricName, Output, Part, Punctuation, Special
from twmd_registry.registry.spec import MetricSpec, make_spec

MOST_LAYERS = 5
"""The paper reads BERT's last five (section 3.3)."""
PAPERS_MODEL = "bert-base-uncased"
"""What stands beside the paper's BERT itself."""

GRANULARITIES: dict[str, int | str] = {"SMD": SENTENCE, "WMD-1": 1, "WMD-2": 2}
"""Tokens that are moved together."""


class RowModel(NamedTuple):
    """The model that rows are computed with.

    Attributes:
        model: Its name.
        depth: Its layers; 0 for a table of word vectors.
        layer: The hidden state that was asked for; None for the paper's choice.
    """

    model: str
    depth: int
    layer: int | None = None

    @property
    def last(self) -> list[int]:
        """The last five layers, or as many as there are."""
        return list(range(max(1, self.depth - MOST_LAYERS + 1), self.depth + 1)) or [0]

    def near(self, encoders: tuple[str, ...]) -> str:
        """The paper's encoder that this one is compared with.

        Word vectors are compared with word vectors and BERT with BERT as it was trained first; any other encoder with the one that the
        paper has most rows of, its last: BERT tuned on MNLI where a table has it.

        Args:
            encoders: The paper's, in the order of a table.
        """
        wanted = "W2V" if self.depth == 0 else "BERT" if self.model == PAPERS_MODEL else encoders[-1]
        return wanted if wanted in encoders else encoders[-1]


def mover(encoder: RowModel, layers: list[int], aggregation: str = Aggregation.PMEANS, ngram: int | str = 1) -> MetricSpec:
    """A word or sentence mover's specification.

    Args:
        encoder: The model.
        layers: Its hidden states.
        aggregation: How several become one vector.
        ngram: Tokens that are moved together.
    """
    several = aggregation if len(layers) > 1 else Aggregation.SINGLE
    preset = "moverscore-smd" if ngram == SENTENCE else "moverscore-v1"
    return make_spec(MetricName.MOVERSCORE, preset, model=encoder.model, layer=layers_text(layers), aggregation=several, ngram=ngram)


def versions(encoder: RowModel) -> dict[str, MetricSpec]:
    """Tables 1 and 3: BERTScore as its authors compute it, at the layer of the model's preset or rule, and movers of the last five layers.

    Raises:
        SpecError: A layer was asked for.
    """
    _refuse_layer(encoder)
    bertscore = make_spec(MetricName.BERTSCORE_CENTERED, model=encoder.model, centering=Centering.NONE, special=Special.PARTNERS, output=Output.F1)
    return {"BERTSCORE-F1": bertscore} | {name: mover(encoder, encoder.last, ngram=ngram) for name, ngram in GRANULARITIES.items()}


def alignments(encoder: RowModel) -> dict[str, MetricSpec]:
    """Table 5: hard and soft alignments of the same tokens with the same weights, read at one layer: BERT's 9th of 12, or as deep in others."""
    layer = round(encoder.depth * 9 / 12) if encoder.layer is None else encoder.layer
    tokens = {"special": Special.ALL, "subwords": Part.DROP, "punctuation": Punctuation.DROP_ASCII, "idf": Idf.CORPUS, "centering": Centering.NONE}
    sides = {"HMD-F1": Output.F1, "HMD-RECALL": Output.RECALL, "HMD-PREC": Output.PRECISION}
    hard = {
        name: make_spec(MetricName.BERTSCORE_CENTERED, "paper", model=encoder.model, layer=layer, output=side, **tokens)
        for name, side in sides.items()
    }
    return hard | {"WMD-UNIGRAM": mover(encoder, [layer]), "WMD-BIGRAM": mover(encoder, [layer], ngram=2)}


def layers(encoder: RowModel) -> dict[str, MetricSpec]:
    """Table 6: the last five layers one by one, named as BERT's 8 to 12 from the last, and consolidated.

    Raises:
        SpecError: A layer was asked for.
    """
    _refuse_layer(encoder)
    single = {f"WMD-1 + LAYER {12 - (encoder.last[-1] - layer)}": mover(encoder, [layer]) for layer in encoder.last}
    return single | {f"WMD-1 + {how.name}": mover(encoder, encoder.last, how) for how in (Aggregation.ROUTING, Aggregation.PMEANS)}


def movers(encoder: RowModel) -> dict[str, MetricSpec]:
    """Figures 2 and 3: the movers of single tokens and of sentences.

    Raises:
        SpecError: A layer was asked for.
    """
    _refuse_layer(encoder)
    return {"SentMover": mover(encoder, encoder.last, ngram=SENTENCE), "WordMover": mover(encoder, encoder.last)}


def layer_text(spec: MetricSpec) -> str:
    """The hidden states of a row."""
    return NO_MODEL if spec.layer is None else str(spec.layer)


class MoverTable(NamedTuple):
    """What one of the paper's tables is made of.

    Attributes:
        specs: The rows that can be computed.
        statistic: The number of a cell.
        decimals: As many as the paper prints of 100 times it.
    """

    specs: Callable[[RowModel], dict[str, MetricSpec]]
    statistic: str
    decimals: int = 1


MOVER_TABLES: dict[str, MoverTable] = {
    "moverscore-table1": MoverTable(versions, "pearson"),
    "moverscore-table3": MoverTable(versions, "spearman"),
    "moverscore-table5": MoverTable(alignments, "pearson"),
    "moverscore-table6": MoverTable(layers, "pearson", 2),
}
"""The tables whose data are public. Table 2 needs TAC's, Table 4 the ratings of captioning systems."""


def _refuse_layer(encoder: RowModel) -> None:
    if encoder.layer is not None:
        raise SpecError(f"layer={encoder.layer} has no meaning here: the paper reads the last five layers; leave it out.")
