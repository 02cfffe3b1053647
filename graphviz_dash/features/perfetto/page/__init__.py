"""Perfetto panel of the dashboard."""
