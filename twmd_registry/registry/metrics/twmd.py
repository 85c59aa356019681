"""The declaration of `twmd`; `align.sinkhorn` computes C, and `combine_sides` F1 and Eq. 1."""

from twmd_registry.registry.metrics import ENCODER_KEYS, TAIL_KEYS, Metric

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
    citation="""\
@inproceedings{chen2020tempered,
  title     = {Improving Text Generation Evaluation with Batch Centering and
               Tempered Word Mover Distance},
  author    = {Chen, Xi and Ding, Nan and Levinboim, Tomer and Soricut, Radu},
  booktitle = {Proceedings of the First Workshop on Evaluation and Comparison of NLP Systems
               (Eval4NLP)},
  year      = {2020}
}""",
)
