"""Folding of repeated and nested parts of a graph."""
