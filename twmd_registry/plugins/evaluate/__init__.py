"""Hugging Face `evaluate`: the base class of the metrics, their names, and its cache of modules."""
