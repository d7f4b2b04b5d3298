"""Pre-train, fine-tune, evaluate and use BERT."""

__version__ = "0.1.0"
