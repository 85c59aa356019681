"""What a score *is*: specifications, signatures, presets and the catalogue of metrics. Standard library only."""
