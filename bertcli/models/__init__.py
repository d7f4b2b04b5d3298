"""Building, loading, saving and running models on packed batches."""
