"""The one loop that pre-training and fine-tuning share."""
