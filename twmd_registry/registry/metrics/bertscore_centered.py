"""The declaration of `bertscore_centered`."""

from twmd_registry.registry.metrics import ENCODER_KEYS, TAIL_KEYS, Metric, bibtex

METRIC = Metric(
    title="BERTScore on centered vectors",
    about="How similar each word is to its single best partner in the other text.",
    formula="mean_i max_j S_ij",
    keys=("output", *ENCODER_KEYS, "padding", *TAIL_KEYS),
    class_name="BERTScoreCentered",
    aligner="greedy",
    two_sided=True,
    lowest=-1.0,
    highest=1.0,
    identical=1.0,
    citation=bibtex("zhang2020bertscore"),
)
