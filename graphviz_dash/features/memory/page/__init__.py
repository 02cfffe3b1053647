"""Memory page."""
