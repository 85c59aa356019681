"""A page on which scores can be tried: two texts, a file, a signature."""
