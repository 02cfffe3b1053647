"""Launch costs of graphs: instantiation, first launch, repeat launch."""
