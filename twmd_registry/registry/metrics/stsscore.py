"""The declaration of `stsscore`."""

from twmd_registry.registry.metrics import TAIL_KEYS, Metric, bibtex

METRIC = Metric(
    title="STSScore",
    about="The semantic similarity that a regression model, fine-tuned on rated pairs, predicts for the two texts.",
    formula="activation(logit) / scale, not clipped unless clip=yes; with symmetric=yes the mean of both orders",
    keys=("model", "revision", "adapter", "activation", "scale", "first", "symmetric", "clip", *TAIL_KEYS),
    class_name="STSScore",
    untrainable="it is a regression model already ('twmd train stsscore')",
    identical=None,
    citation=bibtex("herbold2024semantic"),
)
