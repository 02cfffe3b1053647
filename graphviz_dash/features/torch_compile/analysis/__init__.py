"""Causes that keep a compiled step from its graphs, and their savings."""
