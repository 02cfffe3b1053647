"""Differences between two captured graphs."""
