"""The declaration of `sbert`."""

from twmd_registry.registry.metrics import ENCODER_KEYS, TAIL_KEYS, Metric, bibtex

METRIC = Metric(
    title="Sentence-BERT cosine",
    about="The cosine of two texts' sentence vectors, as the model's authors compute them, or with `vectors` of their "
    "mean token vectors.",
    formula="cos(u, v); with vectors: mean_ij S_ij",
    keys=(*ENCODER_KEYS, "vectors", "normalize", "prompt", *TAIL_KEYS),
    class_name="SBERT",
    aligner="pooled",
    lowest=-1.0,
    highest=1.0,
    identical=1.0,
    citation=bibtex("reimers2019sentence"),
)
