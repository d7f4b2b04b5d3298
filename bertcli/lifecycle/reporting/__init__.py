"""What a run records for its report and its model card."""
