"""Files, tables and documents; tokenizers, and what they cover."""
