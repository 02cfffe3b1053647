"""Device memory breakdown, and memory cost of graphs."""
