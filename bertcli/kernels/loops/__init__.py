"""The loops of the kernels, compiled by numba for a CPU and by Triton for a GPU."""
