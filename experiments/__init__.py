"""The evidence for our claims: papers recomputed, recipes of the packaged adapters, protocols, benchmarks.

Runs from a checkout (``python -m experiments --help``) and is not in the wheel.
"""
