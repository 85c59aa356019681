"""The declaration of `moverscore`."""

from twmd_registry.registry.metrics import ENCODER_KEYS, TAIL_KEYS, Metric

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
    citation="""\
@inproceedings{zhao2019moverscore,
  title     = {{MoverScore}: Text Generation Evaluating with Contextualized Embeddings and
               Earth Mover Distance},
  author    = {Zhao, Wei and Peyrard, Maxime and Liu, Fei and Gao, Yang and
               Meyer, Christian M. and Eger, Steffen},
  booktitle = {Proceedings of EMNLP-IJCNLP},
  year      = {2019}
}""",
)
