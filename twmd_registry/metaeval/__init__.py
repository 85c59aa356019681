"""How well a metric agrees with people: rated data, correlations, and settings chosen by them."""
