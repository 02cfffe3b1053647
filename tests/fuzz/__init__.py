"""Damaged inputs for all readers of foreign files."""
