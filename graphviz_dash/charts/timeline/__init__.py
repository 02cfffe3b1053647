"""Timeline drawing of kernels."""
