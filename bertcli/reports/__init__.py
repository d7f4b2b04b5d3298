"""Tables beside the paper's scores, plots, model cards and reports of runs."""
