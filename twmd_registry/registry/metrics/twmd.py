"""The declaration of `twmd`; `align.sinkhorn` computes C, and `combine_sides` F1 and Eq. 1."""

from twmd_registry.registry.metrics import ENCODER_KEYS, TAIL_KEYS, Metric, bibtex

METRIC = Metric(
    title="Tempered Word Mover Distance",
    about="How well the words of two texts can be transported onto each other, with a tempered, balanced plan.",
    formula=(
        "<pi, S>, pi = exp(S/T) after the Sinkhorn sweeps of iterations (1 by default), hypothesis marginals last "
        "(precision) or reference marginals last (recall)"
    ),
    keys=("output", *ENCODER_KEYS, "temperature", "iterations", "objective", "normalize", *TAIL_KEYS),
    class_name="TWMD",
    aligner="sinkhorn",
    two_sided=True,
    identical=1.0,
    citation=bibtex("chen2020tempered"),
)
