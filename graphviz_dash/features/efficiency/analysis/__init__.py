"""Work, limits and advice for the nodes of a graph."""
