"""How the baselines are kept and run, and those that are scored beside a fine-tuning."""
