"""Nodes of a captured graph, with their origins and replay times."""
