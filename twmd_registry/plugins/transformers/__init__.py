"""Metrics of the registry, and any others, in the evaluations of `transformers.Trainer`.

Make ``metrics = make_compute_metrics(tokenizer, ["twmd", "bleu"])`` and give it to the trainer twice,
``compute_metrics=metrics`` and ``callbacks=[metrics]``.
"""

from twmd_registry.plugins.transformers.callback import RegistryCallback, make_compute_metrics

__all__ = ["RegistryCallback", "make_compute_metrics"]
