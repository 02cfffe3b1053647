"""Launch costs of synthetic graphs, measured in a process to which no profiler is attached."""
