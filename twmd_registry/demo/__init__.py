"""A page to try scores: two texts, a file, a signature."""
