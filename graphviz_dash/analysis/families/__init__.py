"""Families of graphs that differ only by shape: cost per graph, requests and recommended sizes."""
