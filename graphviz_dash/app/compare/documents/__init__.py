"""JSON documents of runs and comparisons."""
