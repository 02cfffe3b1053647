"""Read graphs from the CUDA driver: topology, node parameters, operands."""
