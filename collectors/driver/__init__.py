"""Graphs as the CUDA driver tells of them: topology, node parameters, operands."""
