"""Rules that find recommendations."""
