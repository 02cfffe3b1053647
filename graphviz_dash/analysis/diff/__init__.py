"""Comparison of two captured graphs, and prediction of graph updates."""
