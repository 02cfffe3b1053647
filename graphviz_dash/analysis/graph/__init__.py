"""Structure of captured graphs: topology, nested graphs, critical path, memory dependencies."""
