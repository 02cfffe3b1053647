"""Graph page."""
