"""Compile page."""
