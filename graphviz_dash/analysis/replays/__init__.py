"""Matching of replayed kernels to nodes of the captured graph."""
