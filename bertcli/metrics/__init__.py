"""Metrics, as modules of `evaluate` that are part of the package, so that nothing is downloaded."""
