"""Analysis results as terminal text."""
