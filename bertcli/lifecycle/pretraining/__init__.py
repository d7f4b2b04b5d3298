"""A pre-training: its phases, its steps by floating-point operations, and the run."""
