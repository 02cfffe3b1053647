"""Exports that combine features."""
