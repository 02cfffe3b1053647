"""Runs as Perfetto and Chrome traces."""
