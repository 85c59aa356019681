"""Faces to other people's frameworks; each is thin, and none is imported before it is used."""
