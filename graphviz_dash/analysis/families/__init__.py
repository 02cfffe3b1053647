"""Graphs that differ by shape alone: what each costs, who asks for it, and which sizes pay."""
