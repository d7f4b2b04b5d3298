"""Packed batches, and the examples of a task encoded for them."""
