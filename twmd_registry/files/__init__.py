"""Readers of users' files: lines of text, tables and compressed files."""
