"""Frozen data types of runs, graphs and traces. Imports no torch and no dataframe engine."""
