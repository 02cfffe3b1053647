"""The doctor explains why a capture fails and what a replay would silently skip."""
