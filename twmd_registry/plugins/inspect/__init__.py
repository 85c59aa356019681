"""inspect_ai: a metric as a scorer of a task."""
