"""The papers' tables and figures as data (``data/papers/*.toml``), and the one runner that computes them again."""
