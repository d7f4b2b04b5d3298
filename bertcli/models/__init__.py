"""Models built, loaded, saved and run on packed batches."""
