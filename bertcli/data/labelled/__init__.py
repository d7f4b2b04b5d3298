"""Files of labelled examples, read."""
