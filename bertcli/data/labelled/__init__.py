"""Reading files of labelled examples."""
