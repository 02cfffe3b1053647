"""Frozen data types: what a run, a graph and a trace are. Needs no torch, no dataframe engine."""
