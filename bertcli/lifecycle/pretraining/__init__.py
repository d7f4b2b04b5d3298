"""A pre-training: its family, its phases, its steps by floating-point operations, and the run."""
