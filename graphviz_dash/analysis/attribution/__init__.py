"""Origins of captured nodes: launching operator, module and source line."""
