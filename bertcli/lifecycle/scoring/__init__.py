"""What answers the examples of a task, and the scores of its answers."""
