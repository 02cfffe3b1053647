"""Comparison of an experiment's runs with their baseline, and the regression gate."""
