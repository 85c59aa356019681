"""Training metrics on human ratings. Needs ``pip install 'twmd-registry[train]'``."""
