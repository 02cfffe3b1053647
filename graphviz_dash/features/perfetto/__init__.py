"""Trace export and the local Perfetto UI."""
