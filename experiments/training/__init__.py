"""Recipes of the packaged adapters: their data, edits, teachers, copies in 8 bits, and the model of base size."""
