"""The papers' tables and figures as data (``data/papers/*.toml``), and the runner that computes them again."""
