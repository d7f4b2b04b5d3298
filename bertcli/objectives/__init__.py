"""One file a pre-training objective: its instances, targets, head, loss and metrics."""
