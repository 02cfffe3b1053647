"""Measure the limits of the current GPU: bandwidth, arithmetic rates, empty kernels."""
