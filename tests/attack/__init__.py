"""Attacks on the dashboard and the tools for them."""
