"""The server of `bert serve`: requests gathered into packed batches, within bounds."""
