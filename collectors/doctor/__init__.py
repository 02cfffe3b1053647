"""The doctor: why a capture fails, and what a replay would silently not do."""
