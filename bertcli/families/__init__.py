"""One file a family of models: what is known of it."""
