"""A program recorded as it is."""
