"""BERT models: built, loaded, saved and run without padding."""
