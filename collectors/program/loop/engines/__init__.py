"""Readers of inference engines: steps, sizes and graph keys from their public state."""
