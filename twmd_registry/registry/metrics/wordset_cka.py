"""The declaration of `wordset_cka`."""

from twmd_registry.registry.metrics import ENCODER_KEYS, TAIL_KEYS, Metric

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
    citation="""\
@inproceedings{zhelezniak2019correlations,
  title     = {Correlations between Word Vector Sets},
  author    = {Zhelezniak, Vitalii and Shen, April and Busbridge, Daniel and Savkov, Aleksandar and
               Hammerla, Nils},
  booktitle = {Proceedings of EMNLP-IJCNLP},
  year      = {2019}
}""",
)
