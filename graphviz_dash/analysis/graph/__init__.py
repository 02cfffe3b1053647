"""Captured graphs as graphs: topology, nested graphs, the critical path, memory dependencies."""
