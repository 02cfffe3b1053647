"""Panels of the page Graphs: the members of a family, its best ladder, a step in segments."""
