"""The declaration of `ensemble`."""

from twmd_registry.registry.metrics import Metric

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
    two_sided=False,
    self_normalised=False,
    lowest=None,
    highest=None,
    identical=None,
    citation="""\
@misc{herbold2024semantic,
  title  = {Semantic similarity prediction is better than other semantic similarity measures},
  author = {Herbold, Steffen},
  year   = {2024},
  note   = {Transactions on Machine Learning Research}
}""",
)
