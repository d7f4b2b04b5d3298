"""Metrics as modules of `evaluate` that ship with the package, so that nothing is downloaded."""
