"""Rated texts: a reader per format of published data."""
