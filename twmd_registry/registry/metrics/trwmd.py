"""The declaration of `trwmd`."""

from twmd_registry.registry.metrics import ENCODER_KEYS, TAIL_KEYS, Metric

METRIC = Metric(
    title="Tempered Relaxed Word Mover Distance",
    about="How well each word finds soft partners in the other text; no balance between the partners is asked for.",
    formula="mean_i sum_j softmax_j(S_ij / T) S_ij",
    keys=("output", *ENCODER_KEYS, "temperature", "objective", "normalize", *TAIL_KEYS),
    class_name="TRWMD",
    aligner="relaxed",
    two_sided=True,
    self_normalised=True,
    lowest=None,
    highest=None,
    identical=1.0,
    citation="""\
@inproceedings{chen2020tempered,
  title     = {Improving Text Generation Evaluation with Batch Centering and Tempered Word Mover Distance},
  author    = {Chen, Xi and Ding, Nan and Levinboim, Tomer and Soricut, Radu},
  booktitle = {Proceedings of the First Workshop on Evaluation and Comparison of NLP Systems (Eval4NLP)},
  year      = {2020}
}""",
)
