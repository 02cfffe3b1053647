"""Commands, one per module."""
