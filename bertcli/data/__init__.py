"""Text in, packed batches out."""
