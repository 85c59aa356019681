"""Protocols of shared tasks: their averages, their files, and the meaning of a difference of scores."""
