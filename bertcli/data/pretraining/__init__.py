"""Pre-training instances: made, stored in shards, read back."""
