"""A pair of texts in, a number out: regression models that were trained on rated pairs."""
