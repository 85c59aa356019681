"""SacreBLEU: every metric as a `sacrebleu.metrics.base.Metric`, and its tests over all of them."""
