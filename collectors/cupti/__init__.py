"""CUPTI records of graphs and their nodes."""
