"""Panels of the Graphs page: members of a family, recommended sizes, a step in segments."""
