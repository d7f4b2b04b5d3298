"""Texts as vectors: made, kept beside their file, and searched."""
