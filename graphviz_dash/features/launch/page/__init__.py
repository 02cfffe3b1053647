"""Launch page."""
