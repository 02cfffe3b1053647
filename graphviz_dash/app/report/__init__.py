"""HTML report of an experiment."""
