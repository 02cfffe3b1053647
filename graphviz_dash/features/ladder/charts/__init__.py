"""Charts of graph families and capture sizes."""
