"""Fine-tuned models with the examples they answer, and the scores of the answers."""
