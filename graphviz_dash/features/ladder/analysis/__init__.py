"""Search for the capture sizes with the lowest cost."""
