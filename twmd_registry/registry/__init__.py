"""The definition of a score: specifications, signatures, presets, metrics. Standard library only."""
