"""Texts that people have rated: a file per form in which such data are published."""
