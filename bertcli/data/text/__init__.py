"""Documents, tokenizers, and how well a vocabulary covers text."""
