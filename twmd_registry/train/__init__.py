"""Training metrics on human ratings. Needs the extra ``train``."""
