"""How we know what we claim: the papers computed again, recipes of the packaged adapters, protocols, benchmarks.

Runs from a checkout (``python -m experiments --help``) and is not part of the wheel.
"""
