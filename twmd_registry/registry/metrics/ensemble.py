"""The declaration of `ensemble`."""

from twmd_registry.registry.metrics import Metric, bibtex

METRIC = Metric(
    title="Ensemble",
    about=(
        "The weighted mean of other metrics' scores of each segment, ensemble(stsscore,2*sbert): more robust than any "
        "of them."
    ),
    formula="sum_k w_k score_k / sum_k w_k",
    keys=("members",),
    class_name="Ensemble",
    untrainable="train its members one by one",
    identical=None,
    citation=bibtex("herbold2024semantic"),
)
