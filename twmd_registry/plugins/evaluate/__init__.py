"""The face to Hugging Face `evaluate`: the metrics' base class, bare names, and the opt-in start-up file."""
