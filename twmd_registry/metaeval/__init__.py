"""Meta-evaluation: rated data, correlation with human ratings, and settings tuned on them."""
