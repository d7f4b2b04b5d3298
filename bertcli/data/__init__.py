"""Text, labelled examples and pre-training instances, and how they are packed."""
