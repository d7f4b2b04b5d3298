"""Several processes that share a run: their Accelerator, how they are started and watched, and weights in shards."""
