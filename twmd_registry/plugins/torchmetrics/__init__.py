"""The face to torchmetrics, and so to PyTorch Lightning: every metric as a `torchmetrics.Metric`."""
