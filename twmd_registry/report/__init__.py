"""Scores as people read them."""
