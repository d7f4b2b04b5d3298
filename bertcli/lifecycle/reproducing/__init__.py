"""A reproduction of one of the paper's experiments: its parts, who runs them, and what they amount to."""
