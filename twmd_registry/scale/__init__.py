"""Scoring data sets larger than one machine: the room for Ray Data. Nothing lives here yet."""
