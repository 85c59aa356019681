"""The version of this package: part of every signature."""

__version__ = "1.0.0"
