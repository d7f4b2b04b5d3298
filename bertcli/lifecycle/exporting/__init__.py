"""The files of an exported model, and the example that runs them."""
