"""Captured graph as a DAG: folding, drawing, diff."""
