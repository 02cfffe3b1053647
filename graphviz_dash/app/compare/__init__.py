"""Comparison of the runs of an experiment: page, command, documents."""
