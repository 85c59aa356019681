"""torchmetrics, and so PyTorch Lightning: every metric as a `torchmetrics.Metric`."""
