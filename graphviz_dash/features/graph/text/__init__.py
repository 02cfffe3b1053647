"""Terminal output of the graph and diff commands."""
