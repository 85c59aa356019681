"""Texts to token vectors: tokenising, running an encoder up to the layer needed, mean vectors of a corpus."""
