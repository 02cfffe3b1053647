"""Distance of graph nodes from the limits of the GPU."""
