"""The training loop of pre-training and fine-tuning, checkpoints and run folders."""
