"""Overview page."""
