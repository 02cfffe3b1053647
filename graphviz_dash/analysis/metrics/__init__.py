"""The metric registry, and the metrics of a single run."""
