"""Making, storing and reading pre-training instances."""
