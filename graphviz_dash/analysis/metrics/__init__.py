"""The registry of metrics, and those of one run by itself."""
