"""The declaration of `trwmd`."""

from twmd_registry.registry.metrics import ENCODER_KEYS, TAIL_KEYS, Metric, bibtex

METRIC = Metric(
    title="Tempered Relaxed Word Mover Distance",
    about="How well each word finds soft partners in the other text, without balance between the partners.",
    formula="mean_i sum_j softmax_j(S_ij / T) S_ij",
    keys=("output", *ENCODER_KEYS, "temperature", "objective", "normalize", *TAIL_KEYS),
    class_name="TRWMD",
    aligner="relaxed",
    two_sided=True,
    identical=1.0,
    citation=bibtex("chen2020tempered"),
)
