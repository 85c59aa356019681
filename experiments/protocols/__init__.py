"""Protocols of shared tasks: their averages over tasks, their files, and what a difference of scores means."""
