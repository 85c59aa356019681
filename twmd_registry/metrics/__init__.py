"""The `evaluate` modules of this package, one per metric.

In a checkout they lie in the top-level folder ``metrics/``, where ``evaluate.load("metrics/twmd")`` finds them; a wheel
carries them in here. Either way they are importable as ``twmd_registry.metrics.<name>.<name>``.
"""

from twmd_registry.plugins.evaluate_hook import metrics_folder

__path__ = [str(metrics_folder())]
