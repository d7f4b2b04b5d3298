"""Faster ways to do what models/ does plainly."""
