"""The drawing of kernels over time."""
