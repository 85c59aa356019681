"""The face to `transformers.Trainer`: metrics of the registry, and any others, while a model is trained.

Make ``metrics = make_compute_metrics(tokenizer, ["twmd", "bleu"])`` and give it to the trainer twice,
``compute_metrics=metrics`` and
``callbacks=[metrics]``.
"""

from twmd_registry.plugins.transformers.callback import RegistryCallback, make_compute_metrics

__all__ = ["RegistryCallback", "make_compute_metrics"]
