"""Tables beside the paper, plots and the model card."""
