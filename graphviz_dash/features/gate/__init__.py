"""Comparison of an experiment with its baseline, for continuous integration."""
