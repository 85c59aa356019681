"""The TWMD paper's tables, computed again and laid beside the paper's own numbers."""
