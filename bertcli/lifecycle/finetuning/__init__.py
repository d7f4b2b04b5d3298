"""A fine-tuning: its start and its run, what is said before and after it, and runs of several settings."""
