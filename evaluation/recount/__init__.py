"""Counts of public files by a program that shares no code with graphviz-dash, next to its own."""
