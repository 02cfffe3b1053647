"""Conclusions from damaged traces."""
