"""TRL: a metric's score of every completion as its reward, for GRPO and RLOO."""
