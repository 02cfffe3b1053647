"""Charts of launch costs."""
