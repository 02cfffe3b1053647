"""Timeline page."""
