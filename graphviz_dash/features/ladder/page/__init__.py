"""Graphs page."""
