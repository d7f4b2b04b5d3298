"""A fine-tuning: its settings and start, what is said before and after it, and runs of several settings."""
