"""Several processes that share a run: started, watched, and with the weights in shards."""
