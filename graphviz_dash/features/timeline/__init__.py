"""Kernel timeline of one or two runs."""
