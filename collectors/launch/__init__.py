"""Launch costs of toy graphs, measured in a process to which no profiler is attached."""
