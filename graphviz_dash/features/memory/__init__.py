"""Memory cost of graphs."""
