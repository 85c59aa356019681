"""One declaration per metric: everything about it that is no code."""
