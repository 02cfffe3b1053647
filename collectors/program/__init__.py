"""Record an unmodified program."""
