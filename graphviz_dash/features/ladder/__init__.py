"""Capture sizes of programs with many graphs: families of graphs, padding and recommended sizes."""
