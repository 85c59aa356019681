"""The declaration of `wordset_cka`."""

from twmd_registry.registry.metrics import ENCODER_KEYS, TAIL_KEYS, Metric, bibtex

METRIC = Metric(
    title="Word-set CKA",
    about="How alike the directions are that the words of two texts span (linear centered kernel alignment).",
    formula="sum_ij S_ij^2",
    keys=(*ENCODER_KEYS, "normalize", *TAIL_KEYS),
    class_name="WordsetCKA",
    aligner="kernel",
    lowest=0.0,
    highest=1.0,
    identical=1.0,
    citation=bibtex("zhelezniak2019correlations"),
)
