"""Tables and figures of the three papers as data (``*.toml``), and the runner that recomputes them."""
