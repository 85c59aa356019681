"""The declaration of `moverscore`."""

from twmd_registry.registry.metrics import ENCODER_KEYS, TAIL_KEYS, Metric, bibtex

METRIC = Metric(
    title="MoverScore",
    about=(
        "Exact word mover distance as a score: the best balanced transport plan between the words (or n-grams) of "
        "two texts."
    ),
    formula=(
        "1 - EMD or 1 / (1 + EMD), EMD = min <pi, cost> over plans whose row and column sums are the tokens' weights"
    ),
    keys=(*ENCODER_KEYS, "distance", "transform", *TAIL_KEYS),
    class_name="MoverScore",
    aligner="exact",
    untrainable=(
        "exact transport is solved pair by pair and its plan does not move with the weights; twmd is its tempered form"
    ),
    lowest=-3.0,
    highest=1.0,
    identical=1.0,
    citation=bibtex("zhao2019moverscore"),
)
